package policy

import (
	"strings"

	"github.com/weirhq/weir/identity"
)

// Sketch is what a policy says of all requests with one method, host and path,
// before it is known who asks: which rules are left, at which cost, and the
// route in their keys. It is for who decides many requests that are alike, and
// may do the first half elsewhere. It is immutable, and holds the strings that
// it was made of.
type Sketch struct {
	policy  *Policy
	method  string
	host    string
	reading string // of the path, its only one
	early   bool   // an early exempt entry may hold
	rules   []sketched
}

// sketched is a rule that may match.
type sketched struct {
	*rule
	route string
	cost  int64
	asks  bool // it has conditions on who asks, or match.not
}

// Sketch returns the sketch of a request's method, host and path, or nil where
// none is to be had: where a path has several readings, and where rules are found
// by tenant or plan.
func (p *Policy) Sketch(method, host, path string) *Sketch {
	var room [2]string
	readings := identity.AppendReadings(room[:0], path)
	if len(readings) != 1 || len(p.rules) == 0 || len(p.index.tenants)+len(p.index.plans) > 0 {
		return nil
	}
	q := request{method: strings.ToUpper(method), host: identity.CleanHost(host), path: readings[0]}
	s := &Sketch{policy: p, method: q.method, host: q.host, reading: q.path}
	for i := range p.early {
		s.early = s.early || p.early[i].matchTarget(&q) == holds
	}
	found := make(candidates, (len(p.rules)+63)/64)
	p.index.find(found, &q)
	for i := range found.all {
		r := &p.rules[i]
		if r.match.matchTarget(&q) != holds {
			continue
		}
		e := sketched{rule: r, cost: r.costOf(q.path), asks: r.match.asksWho() || r.not.given}
		if r.routed {
			e.route = r.routeOf(q.path)
		}
		s.rules = append(s.rules, e)
	}
	return s
}

// sketched returns the sketch of the request, if there is one by p.
func (p *Policy) sketched(m *Match) *Sketch {
	if m.Sketch == nil || m.Sketch.policy != p || m.Explain {
		return nil
	}
	return m.Sketch
}

// mayExempt reports whether an early entry may hold, as far as a sketch tells.
func (p *Policy) mayExempt(m *Match) bool {
	s := p.sketched(m)
	return s == nil || s.early
}

// claimSketched adds what a rule of the sketch claims.
func (p *Policy) claimSketched(e *sketched, q *request, m *Match, c *Claims) {
	if e.asks && (e.match.match(q) != holds || e.not.given && e.not.match(q) == holds) {
		return
	}
	if limit := p.limit(e.rule, q.caller, c); limit != nil {
		e.claim(q, m, c, c.Len(), limit, e.route, e.cost)
	}
}
