package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Finding is something about a policy that is allowed and most likely not
// meant. Field is its place, as in Faults.
type Finding struct {
	Field string
	Text  string
}

// Check looks for what is allowed and most likely not meant. It is certain of
// what it says and says each thing once, however many rules it is about.
func (p *Policy) Check() []Finding {
	var out []Finding
	add := func(field, format string, args ...any) {
		out = append(out, Finding{field, fmt.Sprintf(format, args...)})
	}
	for i := range p.rules {
		r := &p.rules[i]
		field := fmt.Sprintf("limits[%d]", i)
		if r.Name == "adhoc" || r.Name == "none" || r.Name == "other" {
			add(field+".name", "rule %q has the name under which metrics and events count what no rule decided (adhoc, none) and the rules beyond the 1,000th (other): the two become one figure. Take another name", r.Name)
		}
		if chosen := callerChosen(r); chosen != "" {
			add(field+".key", "rule %q counts by %s alone, which the caller chooses: whoever wants a fresh balance makes up a new value. Add ip, api_key, tenant or user, or a second rule by ip", r.Name, chosen)
		}
		if r.routed && len(r.match.paths) == 0 {
			add(field+".key", "rule %q counts by route and has no match.paths, so the route is always the same", r.Name)
		}
		for _, v := range r.variants(field) {
			if v.Limit.Kind() == algo.SlidingLog && v.Limit.Period() > time.Hour {
				add(v.Field, "a sliding_log over %s keeps every charge that long, up to %s a caller; sliding_window needs %d bytes", periodOf(v.Limit), byteText(logBytes(v.Limit)), memorySlot)
			}
		}
		out = append(out, r.checkCosts(field)...)
	}
	out = append(out, p.checkBursts()...)
	out = append(out, p.checkSlots()...)
	return out
}

// callerChosen names the parts of a key that is made of what the caller chooses
// and nothing else.
func callerChosen(r *rule) string {
	chosen := false
	var parts []string
	for _, part := range r.Key {
		if part.String() != "route" { // one of a few, chosen by the file
			parts = append(parts, part.String())
			chosen = chosen || part.CallerChosen()
		}
		if part.String() != "route" && !part.CallerChosen() {
			return ""
		}
	}
	if !chosen {
		return ""
	}
	return strings.Join(parts, " and ")
}

// Variant is one limit that a rule may apply.
type Variant struct {
	Field string
	Rule  *Rule
	Plan  string // "" for the rule's limit
	Try   bool
	Limit weir.Limit
}

// variants are the limits of a rule, in the order of the file's fields.
func (r *rule) variants(field string) []Variant {
	var out []Variant
	if r.Limit != (weir.Limit{}) {
		out = append(out, Variant{Field: field + ".limit", Rule: &r.Rule, Limit: r.Limit})
	}
	for _, plan := range sortedKeys(r.Plans) {
		out = append(out, Variant{Field: field + ".plans." + plan, Rule: &r.Rule, Plan: plan, Limit: r.Plans[plan]})
	}
	if r.Try != (weir.Limit{}) {
		out = append(out, Variant{Field: field + ".try", Rule: &r.Rule, Try: true, Limit: r.Try})
	}
	return out
}

// Variants lists every limit that the policy may apply.
func (p *Policy) Variants() []Variant {
	var out []Variant
	for i := range p.rules {
		out = append(out, p.rules[i].variants(fmt.Sprintf("limits[%d]", i))...)
	}
	return out
}

// checkCosts finds a usual cost that a limit of the rule can never admit, the cost of a
// path that none of them can, since what is too dear for one plan may be meant to be,
// and a rule under which nothing costs anything.
func (r *rule) checkCosts(field string) []Finding {
	if r.cost == 0 && !slices.ContainsFunc(r.costs, func(c pathCost) bool { return c.cost > 0 }) {
		return []Finding{{field + ".cost", fmt.Sprintf("rule %q costs nothing, so it never refuses; write a cost of 1 or more, or the paths that cost something", r.Name)}}
	}
	var out []Finding
	check := func(field string, cost int64, usual bool) {
		var small []string
		admits := false
		for _, v := range r.variants("") {
			l := v.Limit
			switch {
			case l.IsUnlimited() || l.Most() >= cost:
				admits = admits || !v.Try
			case l.Units() > 0:
				small = append(small, v.name()+" ("+l.String()+")")
			}
		}
		if len(small) > 0 && (usual || !admits) {
			out = append(out, Finding{field, fmt.Sprintf("a cost of %d is more than %s can ever admit, so such requests are always refused there", cost, list(small))})
		}
	}
	if len(r.match.paths) == 0 || slices.ContainsFunc(r.match.paths, func(p pattern) bool {
		return !slices.ContainsFunc(r.costs, func(c pathCost) bool { return c.text == p.text })
	}) { // else every path has a cost of its own
		check(field+".cost.default", r.cost, true)
	}
	for _, path := range sortedKeys(r.Cost.Paths) {
		check(field+".cost.paths."+path, r.Cost.Paths[path], false)
	}
	return out
}

// checkBursts finds token buckets that hold no more than one period's units. It
// is one finding for all of them: it is the default, and often meant. Periods
// over a minute are left out, since there one period's units are burst enough.
func (p *Policy) checkBursts() []Finding {
	var tight []string
	field := ""
	for _, v := range p.Variants() {
		l := v.Limit
		if l.IsUnlimited() || l.Kind() != algo.TokenBucket || l.Units() == 0 || l.Most() != l.Units() || l.Period() > time.Minute {
			continue
		}
		if field == "" {
			field = v.Field
		}
		tight = append(tight, v.name()+" ("+l.String()+")")
	}
	if len(tight) == 0 {
		return nil
	}
	return []Finding{{field, fmt.Sprintf("the burst equals the rate in %s: clients that keep under it on average, but not evenly, are refused; a burst of 2 to 3 times the rate is usual", list(tight))}}
}

func (v *Variant) name() string {
	switch {
	case v.Try:
		return v.Rule.Name + " try"
	case v.Plan != "":
		return v.Rule.Name + " " + v.Plan
	}
	return v.Rule.Name
}

// list joins names, and counts those past the fifth.
func list(names []string) string {
	if len(names) > 5 {
		names = append(slices.Clone(names[:5]), fmt.Sprintf("%d more", len(names)-5))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// checkSlots finds rules that may stand in one bill and whose balances lie in
// different slots of a cluster. Such a bill cannot be one atomic step there.
func (p *Policy) checkSlots() []Finding {
	var groups []string // what balances are grouped by
	rules := map[string][]string{}
	for i := range p.rules {
		by := p.rules[i].groupedBy()
		if rules[by] == nil {
			groups = append(groups, by)
		}
		rules[by] = append(rules[by], p.rules[i].Name)
	}
	if !p.anyMeet() {
		return nil
	}
	parts := make([]string, len(groups))
	for i, by := range groups {
		parts[i] = fmt.Sprintf("by %s (%s)", by, list(rules[by]))
	}
	return []Finding{{"limits", fmt.Sprintf("one request may be charged %s: in a Redis Cluster these balances lie in different slots, so the bill is not one atomic step there. It never over-admits, and may for a moment under-admit", list(parts))}}
}

func (r *rule) groupedBy() string {
	if r.tenantPart >= 0 {
		return "tenant"
	}
	return r.Key[0].String()
}

// anyMeet reports whether two rules of different groups may apply to one
// request. Beyond a few hundred rules only neighbours in the file are compared:
// the finding is about the policy and needs one pair.
func (p *Policy) anyMeet() bool {
	for i := range p.rules {
		for j := i + 1; j < min(len(p.rules), i+300); j++ {
			a, b := &p.rules[i], &p.rules[j]
			if a.groupedBy() != b.groupedBy() && a.match.meets(&b.match) {
				return true
			}
		}
	}
	return false
}

// meets reports whether some request may hold both.
func (c *conditions) meets(d *conditions) bool {
	return overlap(c.methods, d.methods) && overlap(c.tenants, d.tenants) && overlap(c.plans, d.plans) && pathsMeet(c.paths, d.paths)
}

func overlap(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func pathsMeet(a, b []pattern) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(p pattern) bool {
		return slices.ContainsFunc(b, func(q pattern) bool { return meet(p.segments, q.segments) })
	})
}
