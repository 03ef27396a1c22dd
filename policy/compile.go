package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/identity"
)

// The bounds of a policy. MaxRules keeps loading and reloading a matter of
// milliseconds.
const (
	MaxRules = 10_000
	maxName  = 64
)

// rule is a compiled Rule.
type rule struct {
	Rule
	number     int // among the rules
	match      conditions
	not        conditions
	costs      []pathCost // most specific first
	cost       int64
	space      string
	trySpace   string
	expose     bool
	routed     bool   // the key holds the route
	byIP       bool   // the key is the address and nothing else
	fixed      string // the key, where it is the same for all requests
	limited    bool   // Limit is given: it is not only for plans
	hasTry     bool
	tenantPart int // index of tenant in the key, or -1
}

type pathCost struct {
	pattern
	cost int64
}

// Spaces keep the balances of rules apart from each other's, from tries and from
// those of other doors.
const (
	ruleSpace = "rule/"
	trySpace  = "try/"
)

// Compile checks the rules and prepares them for matching. The error is a
// Faults, everything that was found wrong.
func Compile(o Options) (*Policy, error) {
	var f faults
	p := &Policy{exempts: o.Exempt, rejectTwice: o.RejectAmbiguous, regions: o.Regions, byName: make(map[string]int, len(o.Rules))}
	if len(o.Rules) > MaxRules {
		f.add("limits", fmt.Sprintf("has %d rules; a policy holds at most %d", len(o.Rules), MaxRules))
		return nil, f.list
	}
	for i := range o.Exempt {
		field := "exempt[" + strconv.Itoa(i) + "]"
		before := len(f.list)
		c := compileConditions(&o.Exempt[i], field, &f)
		switch {
		case len(f.list) > before: // what is left of it may exempt everything
		case !c.given:
			f.add(field, "has no condition, so it would exempt every request")
		case c.early:
			p.early = append(p.early, c)
		default:
			p.late = append(p.late, c)
		}
	}
	matches := make([]conditions, len(o.Rules))
	p.rules = make([]rule, len(o.Rules))
	for i := range o.Rules {
		field := "limits[" + strconv.Itoa(i) + "]"
		before := len(f.list)
		p.rules[i] = compileRule(&o.Rules[i], field, &f)
		r := &p.rules[i]
		r.number = i
		if first, ok := p.byName[r.Name]; ok {
			f.add(field+".name", fmt.Sprintf("%q is already the name of limits[%d]", r.Name, first))
		} else {
			p.byName[r.Name] = i
		}
		if len(f.list) == before {
			p.checkReachable(r, field, &f)
		}
		matches[i] = r.match
	}
	p.checkBill(&f)
	if len(f.list) > 0 {
		return nil, f.list
	}
	p.index = buildIndex(matches)
	p.earlyIndex, p.lateIndex = buildIndex(p.early), buildIndex(p.late)
	return p, nil
}

func compileRule(in *Rule, field string, f *faults) rule {
	r := rule{Rule: *in}
	if problem := checkName(r.Name); problem != "" {
		f.add(field+".name", problem)
	}
	r.match = compileConditions(&r.Match, field+".match", f)
	r.not = compileConditions(&r.Not, field+".match.not", f)
	r.checkKey(field, f)
	if len(r.Key) == 1 && r.Key[0].String() == "all" {
		key, _ := identity.AppendKey(nil, r.Key, &identity.Source{}, false)
		r.fixed = string(key)
	}
	r.limited = r.Limit != (weir.Limit{})
	r.hasTry = r.Try != (weir.Limit{})
	r.byIP = len(r.Key) == 1 && r.Key[0].String() == "ip"
	r.checkLimits(field, f)
	r.compileCosts(field, f)
	return r
}

func checkName(s string) string {
	switch {
	case s == "":
		return "is missing; every rule needs a name of its own"
	case len(s) > maxName:
		return "is longer than 64 characters"
	case strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "":
		return quoted(s, "must be made of letters, digits, . _ and -")
	}
	return ""
}

func (r *rule) checkLimits(field string, f *faults) {
	none := weir.Limit{}
	if r.Limit == none && len(r.Plans) == 0 {
		f.add(field+".limit", "is missing; write limit:, or plans:, or both")
	}
	if r.Limit != none {
		checkLimit(r.Limit, field+".limit", f)
	}
	if r.Try != none {
		checkLimit(r.Try, field+".try", f)
	}
	for _, plan := range sortedKeys(r.Plans) {
		if plan == "" {
			f.add(field+".plans", "has a plan without a name")
		}
		checkLimit(r.Plans[plan], field+".plans."+plan, f)
	}
}

func checkLimit(l weir.Limit, field string, f *faults) {
	if err := l.Check(); err != nil {
		f.add(field, strings.TrimPrefix(err.Error(), "limit: "))
	}
}

func (r *rule) compileCosts(field string, f *faults) {
	r.cost = max(r.Cost.Default, 1)
	if r.Cost.Free {
		r.cost = 0
	}
	if problem := checkCost(r.Cost.Default); problem != "" {
		f.add(field+".cost.default", problem)
	}
	for _, path := range sortedKeys(r.Cost.Paths) {
		at := field + ".cost.paths." + path
		p, problem := compilePattern(path)
		if problem != "" {
			f.add(at, quoted(path, problem))
			continue
		}
		if problem := checkCost(r.Cost.Paths[path]); problem != "" {
			f.add(at, problem)
		}
		if len(r.match.paths) > 0 && !slices.ContainsFunc(r.match.paths, func(q pattern) bool { return meet(p.segments, q.segments) }) {
			f.add(at, quoted(path, "is no path that the rule matches, so this cost is never used"))
		}
		r.costs = append(r.costs, pathCost{p, r.Cost.Paths[path]})
	}
	slices.SortFunc(r.costs, func(a, b pathCost) int { return moreSpecific(&a.pattern, &b.pattern) })
	for i := 1; i < len(r.costs); i++ {
		if r.costs[i].text == r.costs[i-1].text {
			f.add(field+".cost.paths", quoted(r.costs[i].text, "is given twice"))
		}
	}
}

// maxCost is the largest cost of a charge: what JSON and Lua carry exactly.
const maxCost = 1<<53 - 1

func checkCost(c int64) string {
	switch {
	case c < 0:
		return "must not be negative"
	case c > maxCost:
		return "is at most 9007199254740991"
	}
	return ""
}

// costOf returns what a request for path costs.
func (r *rule) costOf(path string) int64 {
	for i := range r.costs {
		if r.costs[i].match(path) {
			return r.costs[i].cost
		}
	}
	return r.cost
}

// checkBill refuses policies under which some request would surely need more
// charges than a bill holds. Rules whose conditions may or may not meet are
// left to the request, which is then an error and charged nothing.
func (p *Policy) checkBill(f *faults) {
	charges := 0
	for i := range p.rules {
		r := &p.rules[i]
		if r.match.given || r.not.given || r.Limit == (weir.Limit{}) {
			continue
		}
		charges++
		if r.Try != (weir.Limit{}) {
			charges++
		}
		if charges > algo.MaxCharges {
			f.add("limits["+strconv.Itoa(i)+"]", quoted(r.Name, "is one rule too many: with it every request would be charged under more than 32 limits; give rules a match:"))
			return
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// parseOverride reads a limit that a directory holds for a tenant.
func parseOverride(text string) *override {
	l, err := weir.ParseLimit(text)
	return &override{limit: l, sound: err == nil, failure: strings.Contains(text, "on_store_failure=")}
}
