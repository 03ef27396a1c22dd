package policy

import (
	"slices"

	"github.com/weirhq/weir"
)

// A rule that can never apply is a mistake of its author, who believes
// something to be limited that is not. What is found here is certain; what only
// looks unlikely (a tenant that the file does not name may be in the directory)
// is not reported.

// checkReachable notes why r can never apply.
func (p *Policy) checkReachable(r *rule, field string, f *faults) {
	if r.not.given && r.not.covers(&r.match) {
		f.add(field+".match.not", "excludes everything that the rule matches, so the rule never applies")
	}
	for i := range p.early {
		if p.early[i].covers(&r.match) {
			f.add(field, quoted(r.Name, "never applies: every request it matches is exempt"))
			return
		}
	}
	for i := range p.late {
		if p.late[i].covers(&r.match) {
			f.add(field, quoted(r.Name, "never applies: every request it matches is exempt"))
			return
		}
	}
	if r.Limit == (weir.Limit{}) && len(r.match.plans) > 0 &&
		!slices.ContainsFunc(r.match.plans, func(plan string) bool { _, ok := r.Plans[plan]; return ok }) {
		f.add(field+".plans", "names none of the plans that the rule matches, and there is no limit:, so the rule never applies")
		return
	}
	for _, plan := range sortedKeys(r.Plans) {
		if len(r.match.plans) > 0 && !slices.Contains(r.match.plans, plan) {
			f.add(field+".plans."+plan, quoted(plan, "is no plan that the rule matches, so this limit is never used"))
		}
	}
}

// covers reports whether c surely holds whenever d does.
func (c *conditions) covers(d *conditions) bool {
	return subset(d.methods, c.methods) && coversPaths(c.paths, d.paths) &&
		subset(d.hosts, c.hosts) && c.ips.covers(&d.ips) &&
		subset(d.tenants, c.tenants) && subset(d.plans, c.plans) &&
		len(c.headers) == 0
}

// subset reports whether list d restricts to no more than list c allows. An
// empty list allows everything.
func subset(d, c []string) bool {
	if len(c) == 0 {
		return true
	}
	return len(d) > 0 && !slices.ContainsFunc(d, func(s string) bool { return !slices.Contains(c, s) })
}

func coversPaths(c, d []pattern) bool {
	all := pattern{segments: []string{"**"}}
	if len(d) == 0 {
		d = []pattern{all}
	}
	if len(c) == 0 {
		return true
	}
	for i := range d {
		if !slices.ContainsFunc(c, func(p pattern) bool { return p.covers(&d[i]) }) {
			return false
		}
	}
	return true
}

func (s *addresses) covers(t *addresses) bool {
	if len(s.prefixes) == 0 {
		return true
	}
	if len(t.prefixes) == 0 {
		return false
	}
	for p := range t.prefixes {
		if !s.containsPrefix(p.Addr(), p.Bits()) {
			return false
		}
	}
	return true
}

// meet reports whether some path matches both patterns.
func meet(p, q []string) bool {
	return walk(func(again func(i, j int) bool, i, j int) bool {
		switch {
		case i == len(p) && j == len(q):
			return true
		case i < len(p) && p[i] == "**":
			return again(i+1, j) || j < len(q) && again(i, j+1)
		case j < len(q) && q[j] == "**":
			return again(i, j+1) || i < len(p) && again(i+1, j)
		case i == len(p) || j == len(q):
			return false
		}
		return (p[i] == "*" || q[j] == "*" || p[i] == q[j]) && again(i+1, j+1)
	})
}

// covers reports whether p matches whatever q matches: true is certain.
func (p *pattern) covers(q *pattern) bool {
	return walk(func(again func(i, j int) bool, i, j int) bool {
		a, b := p.segments[i:], q.segments[j:]
		switch {
		case len(a) == 0:
			return len(b) == 0
		case a[0] == "**":
			return again(i+1, j) || len(b) > 0 && again(i, j+1)
		case len(b) == 0 || b[0] == "**":
			return false
		}
		return (a[0] == "*" || a[0] == b[0]) && again(i+1, j+1)
	})
}

// walk goes through two lists of segments, from the start of both, remembering
// where it has been: several ** would otherwise make it try the same places again
// and again.
func walk(step func(again func(i, j int) bool, i, j int) bool) bool {
	been := make(map[[2]int]bool)
	var at func(i, j int) bool
	at = func(i, j int) bool {
		if answer, ok := been[[2]int{i, j}]; ok {
			return answer
		}
		answer := step(at, i, j)
		been[[2]int{i, j}] = answer
		return answer
	}
	return at(0, 0)
}
