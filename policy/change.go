package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir"
)

// Changes says which balances start anew when p takes the place of old. What is
// not named keeps its balances: a changed number, cost, condition or plan does
// not touch them, but for paths where the route is counted by. Field is a place
// in p.
func (p *Policy) Changes(old *Policy) []Finding {
	var out []Finding
	for i := range p.rules {
		r := &p.rules[i]
		field := fmt.Sprintf("limits[%d]", i)
		at, ok := old.byName[r.Name]
		if !ok {
			out = append(out, Finding{field + ".name", fmt.Sprintf("rule %q is new, and so are its balances", r.Name)})
			continue
		}
		was := &old.rules[at]
		if was.space != r.space {
			out = append(out, Finding{field + ".key", fmt.Sprintf("the balances of rule %q start anew: it counted by %s and now by %s", r.Name, partText(was), partText(r))})
			continue
		}
		out = append(out, r.changes(was, field)...)
	}
	for i := range old.rules {
		if name := old.rules[i].Name; !p.has(name) {
			out = append(out, Finding{"limits", fmt.Sprintf("rule %q is gone; a rule of another name starts with balances of its own", name)})
		}
	}
	return out
}

func (p *Policy) has(name string) bool { _, ok := p.byName[name]; return ok }

func partText(r *rule) string {
	parts := make([]string, len(r.Key))
	for i, p := range r.Key {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

// changes compares the limits that callers of the same plan get.
func (r *rule) changes(was *rule, field string) []Finding {
	var out []Finding
	compare := func(before, now weir.Limit, who, field string) {
		none := weir.Limit{}
		if before == none || now == none || before.IsUnlimited() || now.IsUnlimited() || balanceOf(before) == balanceOf(now) {
			return
		}
		out = append(out, Finding{field, fmt.Sprintf("the balances of rule %q%s start anew: %s and %s differ in algorithm, period or name", r.Name, who, before, now)})
	}
	compare(was.Limit, r.Limit, "", field+".limit")
	for _, plan := range sortedKeys(r.Plans) {
		before, ok := was.Plans[plan]
		if !ok {
			before = was.Limit
		}
		compare(before, r.Plans[plan], " for plan "+plan, field+".plans."+plan)
	}
	for _, plan := range sortedKeys(was.Plans) {
		if _, ok := r.Plans[plan]; !ok {
			compare(was.Plans[plan], r.Limit, " for plan "+plan, field+".plans")
		}
	}
	compare(was.Try, r.Try, "'s try", field+".try")
	if before, now := r.rerouted(was); before != "" {
		out = append(out, Finding{field + ".match.paths", fmt.Sprintf("the balances of rule %q start anew where the route, by which it counts, is another: what was counted under %s may now be under %s", r.Name, before, now)})
	}
	return out
}

// Moved returns the rules under which the balances of callers start anew who were of
// plan was under old and are of plan is.
func (p *Policy) Moved(old *Policy, was, is string) (rules []string) {
	for i := range p.rules {
		r := &p.rules[i]
		at, ok := old.byName[r.Name]
		if !ok || old.rules[at].space != r.space {
			continue
		}
		before, now := old.rules[at].ofPlan(was), r.ofPlan(is)
		if none := (weir.Limit{}); before != none && now != none && !before.IsUnlimited() && !now.IsUnlimited() && balanceOf(before) != balanceOf(now) {
			rules = append(rules, r.Name)
		}
	}
	return rules
}

// ofPlan returns the limit of callers of a plan.
func (r *rule) ofPlan(plan string) weir.Limit {
	if l, ok := r.Plans[plan]; ok {
		return l
	}
	return r.Limit
}

// rerouted returns a route that requests had under was and the one that they may
// have now, or nothing: a pattern that has come or gone takes or leaves requests
// where it is closer than one on the other side.
func (r *rule) rerouted(was *rule) (before, now string) {
	if !r.routed {
		return "", ""
	}
	old, is := was.patterns(), r.patterns()
	if p, q := closer(is, old); p != nil {
		return q.text, p.text
	}
	if p, q := closer(old, is); p != nil {
		return p.text, q.text
	}
	return "", ""
}

// closer returns a pattern of a that b has not, and one of b that may cover the
// same path and is less close to it.
func closer(a, b []pattern) (p, q *pattern) {
	for i := range a {
		p = &a[i]
		if slices.ContainsFunc(b, func(o pattern) bool { return o.text == p.text }) {
			continue
		}
		for j := range b {
			if q = &b[j]; moreSpecific(p, q) < 0 && meet(p.segments, q.segments) {
				return p, q
			}
		}
	}
	return nil, nil
}

// patterns are the routes that requests may have under r.
func (r *rule) patterns() []pattern {
	if len(r.match.paths) == 0 {
		return []pattern{{everyPath, []string{"**"}}}
	}
	return r.match.paths
}
