package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
)

// Docs is what the users of an API should know of its limits: those that are
// enforced and may be shown. Marshal it for the JSON form.
type Docs struct {
	Limits  []LimitDoc  `json:"limits"`
	Headers []HeaderDoc `json:"headers"`
	Denied  DeniedDoc   `json:"denied"`
}

// LimitDoc is one rule.
type LimitDoc struct {
	Rule string `json:"rule"`
	ScopeDoc
	Except    *ScopeDoc  `json:"except,omitempty"` // what it does not apply to
	CountedBy []string   `json:"counted_by"`
	Plans     []PlanDoc  `json:"plans"`
	Cost      int64      `json:"cost"`
	Costs     []PathCost `json:"costs"` // that differ from Cost
}

// ScopeDoc says to what a rule applies. What an empty list is of does not matter.
type ScopeDoc struct {
	Methods []string `json:"methods"`
	Paths   []string `json:"paths"`
	Hosts   []string `json:"hosts"`
	OfPlans []string `json:"of_plans,omitempty"` // callers of these alone
	// Some says that it also hangs on addresses, tenants or header fields, which are
	// not for everybody to know.
	Some bool `json:"some,omitempty"`
}

// PlanDoc is what one plan is granted.
type PlanDoc struct {
	Plan      string `json:"plan"` // "" for everybody else
	Limit     string `json:"limit"`
	Unlimited bool   `json:"unlimited"`
	Units     int64  `json:"units"`     // per Period
	PeriodMS  int64  `json:"period_ms"` // of a calendar limit the longest
	AtOnce    int64  `json:"at_once"`   // admitted at one instant from idle
	Text      string `json:"text"`
}

// PathCost is what requests for a path cost.
type PathCost struct {
	Path string `json:"path"`
	Cost int64  `json:"cost"`
}

// HeaderDoc is one response header.
type HeaderDoc struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

// DeniedDoc is what a refused caller gets.
type DeniedDoc struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
}

// Docs describes the limits of the file for the users of the API behind it.
func (f *File) Docs() *Docs {
	d := &Docs{Limits: []LimitDoc{}, Headers: f.headerDocs(), Denied: DeniedDoc{429, "application/problem+json"}}
	if f.Denied.Status != 0 {
		d.Denied.Status = f.Denied.Status
	}
	if f.Denied.ContentType != "" {
		d.Denied.ContentType = f.Denied.ContentType
	}
	for _, r := range f.Policy.Rules() {
		if r.Exposed() {
			d.Limits = append(d.Limits, limitDoc(r))
		}
	}
	return d
}

func limitDoc(r *policy.Rule) LimitDoc {
	l := LimitDoc{
		Rule: r.Name, ScopeDoc: scopeDoc(&r.Match),
		CountedBy: []string{}, Plans: []PlanDoc{}, Cost: max(r.Cost.Default, 1), Costs: []PathCost{},
	}
	if r.Cost.Free {
		l.Cost = 0
	}
	if not := scopeDoc(&r.Not); not.words(everything) != everything {
		l.Except = &not
	}
	for _, p := range r.Key {
		l.CountedBy = append(l.CountedBy, p.String())
	}
	for _, plan := range slices.Sorted(maps.Keys(r.Plans)) {
		l.Plans = append(l.Plans, planDoc(plan, r.Plans[plan]))
	}
	if r.Limit != (weir.Limit{}) {
		l.Plans = append(l.Plans, planDoc("", r.Limit))
	}
	for _, path := range slices.Sorted(maps.Keys(r.Cost.Paths)) {
		l.Costs = append(l.Costs, PathCost{path, r.Cost.Paths[path]})
	}
	return l
}

func scopeDoc(c *policy.Conditions) ScopeDoc {
	return ScopeDoc{
		Methods: notNil(c.Methods), Paths: notNil(c.Paths), Hosts: notNil(c.Hosts), OfPlans: c.Plans,
		Some: len(c.IPs)+len(c.Tenants)+len(c.Headers) > 0,
	}
}

func planDoc(plan string, l weir.Limit) PlanDoc {
	d := PlanDoc{Plan: plan, Limit: l.OnFailure(weir.Local).String(), Unlimited: l.IsUnlimited()}
	if l.IsUnlimited() {
		d.Text = "unlimited"
		return d
	}
	d.Units, d.PeriodMS, d.AtOnce = l.Units(), int64(l.Period()/time.Millisecond), l.Most()
	_, period, _ := strings.Cut(d.Limit, "/")
	period, options, _ := strings.Cut(period, " ")
	for _, option := range strings.Fields(options) {
		if zone, ok := strings.CutPrefix(option, "tz="); ok {
			period += " in " + zone
		}
	}
	switch {
	case l.Kind() == algo.LeakyBucket:
		d.Text = fmt.Sprintf("%d per %s, evenly, %d may wait", d.Units, period, d.AtOnce-1)
	case l.Kind() == algo.TokenBucket:
		d.Text = fmt.Sprintf("%d per %s, up to %d at once", d.Units, period, d.AtOnce)
	default:
		d.Text = fmt.Sprintf("%d per %s", d.Units, period)
	}
	return d
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// headerDocs describes the fields that the chosen families send.
func (f *File) headerDocs() []HeaderDoc {
	docs := []HeaderDoc{}
	if f.Headers.Triple {
		docs = append(docs,
			HeaderDoc{"RateLimit-Limit", "how much the limit nearest to refusing admits at once"},
			HeaderDoc{"RateLimit-Remaining", "how much of it is left"},
			HeaderDoc{"RateLimit-Reset", "seconds until it is whole again"})
	}
	if f.Headers.Draft11 {
		docs = append(docs,
			HeaderDoc{"RateLimit-Policy", `the limits that apply: "name";q=quota;w=seconds`},
			HeaderDoc{"RateLimit", `where they stand: "name";r=remaining;t=seconds`})
	}
	if f.Headers.XRateLimit {
		reset := "Unix time at which it is whole again"
		if f.Headers.XReset == "delta" {
			reset = "seconds until it is whole again"
		}
		docs = append(docs,
			HeaderDoc{"X-RateLimit-Limit", "how much the limit nearest to refusing admits at once"},
			HeaderDoc{"X-RateLimit-Remaining", "how much of it is left"},
			HeaderDoc{"X-RateLimit-Reset", reset})
	}
	return append(docs, HeaderDoc{"Retry-After", "seconds to wait after a refusal"})
}

// Markdown returns the documentation as a page.
func (d *Docs) Markdown() string {
	var b strings.Builder
	b.WriteString("# Rate limits\n\n")
	fmt.Fprintf(&b, "A request is admitted if it fits every limit that applies to it; only then is it counted. Otherwise the answer is %d (%s).\n", d.Denied.Status, d.Denied.ContentType)
	for _, l := range d.Limits {
		fmt.Fprintf(&b, "\n## %s\n\nApplies to %s. Counted by %s.\n\n", l.Rule, l.scope(), strings.Join(l.CountedBy, " and "))
		b.WriteString("| plan | limit |\n|---|---|\n")
		for _, p := range l.Plans {
			name := p.Plan
			switch {
			case name == "" && len(l.Plans) == 1:
				name = "every caller"
			case name == "":
				name = "all others"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", cell(name), cell(p.Text))
		}
		if l.Cost != 1 || len(l.Costs) > 0 {
			fmt.Fprintf(&b, "\n| path | cost |\n|---|---|\n")
			for _, c := range l.Costs {
				fmt.Fprintf(&b, "| `%s` | %d |\n", cell(c.Path), c.Cost)
			}
			fmt.Fprintf(&b, "| everything else | %d |\n", l.Cost)
		}
	}
	b.WriteString("\n## Response headers\n\n| header | meaning |\n|---|---|\n")
	for _, h := range d.Headers {
		fmt.Fprintf(&b, "| `%s` | %s |\n", h.Name, cell(h.Meaning))
	}
	return b.String()
}

// scope says in words what the rule applies to.
func (l *LimitDoc) scope() string {
	if l.Except == nil {
		return l.words(everything)
	}
	return l.words(everything) + ", but not to " + l.Except.words("requests")
}

const everything = "every request"

// words says in words what is in the scope; all is what to call it without conditions.
func (c *ScopeDoc) words(all string) string {
	s := all
	if len(c.Methods) > 0 {
		s = either(c.Methods) + " requests"
	}
	for _, part := range []struct {
		to    string
		names []string
	}{{" for ", c.Paths}, {" at ", c.Hosts}, {" of plan ", c.OfPlans}} {
		if len(part.names) > 0 {
			s += part.to + "`" + strings.Join(part.names, "`, `") + "`"
		}
	}
	if c.Some {
		s += " of some callers or with some header fields"
	}
	return s
}

// cell keeps text from ending a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
