package policy

import (
	"strings"
	"unsafe"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/identity"
)

// How a request becomes charges:
//
//	readings of the path ─┬─ exempt under every reading: done, nothing is charged
//	                      └─ for each candidate of the index, in the order of the file:
//	                         match and not not, under any reading
//	                         → limit (override, plan, rule) → key → claim
//	                      → each claim a charge, and its try
//
// A rule that matches under two readings is charged once if the key is the same,
// at the higher cost, and once for each key otherwise: whichever reading the
// server takes, it has been charged, and an ordinary request is not charged
// twice for looking odd.

// Exempt reports whether the request is exempt by what is known without looking
// the caller up: only the caller's address is read. It need not be asked before
// Charges, which answers the same.
func (p *Policy) Exempt(call *identity.Call, caller *identity.Caller, m *Match) bool {
	m.asked = nil
	if len(p.early) == 0 {
		m.reset() // who is refused before Charges must not be told by the last request's rules
		return false
	}
	q := p.request(call, caller, m)
	m.Exempt = p.mayExempt(m) && p.exempt(p.early, p.earlyIndex, &q, m)
	if !m.Exempt {
		m.asked = call
	}
	return m.Exempt
}

// request begins a request. The readings of one that Exempt has been asked about
// are there already.
func (p *Policy) request(call *identity.Call, caller *identity.Caller, m *Match) request {
	s := p.sketched(m)
	if m.asked != call {
		m.reset()
		if s != nil {
			m.readings = append(m.readings, s.reading)
		} else {
			m.readings = identity.AppendReadings(m.readings, call.Path)
		}
	}
	m.asked = nil
	if s != nil {
		return request{call: call, caller: caller, method: s.method, host: s.host, path: s.reading}
	}
	return request{
		call: call, caller: caller,
		method: strings.ToUpper(call.Method), host: identity.CleanHost(call.Host),
	}
}

// Charges fills m with what the request is charged. The error is an
// *weir.InputError: the path is ambiguous and such paths are refused, or more
// limits apply than one bill holds. Nothing must then be charged.
func (p *Policy) Charges(call *identity.Call, caller *identity.Caller, m *Match) error {
	m.claims.Clear()
	if err := p.Claim(call, caller, m, &m.claims); err != nil {
		return err
	}
	m.Charge(&m.claims, 0, m.claims.Len())
	return nil
}

// Claim adds to c what rules want of the request and fills the rest of m, that
// is all but the charges and their rules, which Match.Charge makes of the claims.
// The error is that of Charges; c has then no more than before.
func (p *Policy) Claim(call *identity.Call, caller *identity.Caller, m *Match, c *Claims) error {
	asked := m.asked == call
	q := p.request(call, caller, m)
	if !asked && p.mayExempt(m) && p.exempt(p.early, p.earlyIndex, &q, m) || p.exempt(p.late, p.lateIndex, &q, m) {
		m.Exempt = true
		return nil
	}
	if p.rejectTwice && len(m.readings) > 1 && !m.Trial {
		return &weir.InputError{Field: "path", Problem: "can be read in more than one way, and such paths are refused here"}
	}
	before := *c
	p.claim(&q, m, c)
	if m.Denied != nil && !m.All {
		c.cut(before)
		return nil
	}
	if c.charges(len(before.list)) > algo.MaxCharges {
		c.cut(before)
		if m.Denied != nil || m.Trial {
			return nil
		}
		return &weir.InputError{Field: "limits", Problem: "more than 32 limits apply to this request, and a bill holds no more; narrow the match: of some rules"}
	}
	return nil
}

// claim adds the claims of all rules, up to one that refuses the request, unless all
// are asked for.
func (p *Policy) claim(q *request, m *Match, c *Claims) {
	if len(p.rules) == 0 {
		return
	}
	if s := p.sketched(m); s != nil {
		for i := range s.rules {
			if p.claimSketched(&s.rules[i], q, m, c); m.Denied != nil && !m.All {
				return
			}
		}
		return
	}
	m.clearFound(len(p.rules))
	for _, q.path = range m.readings {
		p.index.find(m.found, q)
	}
	if m.Explain { // every rule has to say why not
		for i := range p.rules {
			m.found.add([]int{i})
		}
	}
	for i := range m.found.all {
		if p.claimRule(&p.rules[i], q, m, c); m.Denied != nil && !m.All {
			return
		}
	}
}

// exempt reports whether an entry holds under every reading.
func (p *Policy) exempt(list []conditions, x *index, q *request, m *Match) bool {
	if len(list) == 0 {
		return false
	}
	for _, q.path = range m.readings {
		m.clearFound(len(list))
		x.find(m.found, q)
		exempt := false
		for i := range m.found.all {
			if list[i].match(q) == holds {
				exempt = true
				break
			}
		}
		if !exempt {
			return false
		}
	}
	return true
}

// claimRule adds what r claims under any reading of the request.
func (p *Policy) claimRule(r *rule, q *request, m *Match, c *Claims) {
	first := len(c.list)
	why, excluded := holds, false
	for i := range m.readings {
		q.path = m.readings[i]
		if why = r.match.match(q); why != holds {
			continue
		}
		if r.not.given && r.not.match(q) == holds {
			excluded = true
			continue
		}
		limit := p.limit(r, q.caller, c)
		if limit == nil {
			m.skip(r, "the caller's plan has no limit here")
			return
		}
		route := ""
		if r.routed {
			route = r.routeOf(q.path)
		}
		if !r.claim(q, m, c, first, limit, route, r.costOf(q.path)) {
			return
		}
	}
	switch {
	case !m.Explain || len(c.list) > first: // it matches under one reading
	case excluded:
		m.skip(r, "match.not excludes it")
	default:
		m.skip(r, missWords[why]+" does not match")
	}
}

// claim adds r's claim under one reading, which has the route and the cost.
// Claims of r under earlier readings begin at first. It returns false if the rule
// is through.
func (r *rule) claim(q *request, m *Match, c *Claims, first int, limit *weir.Limit, route string, cost int64) bool {
	mode := m.Modes.of(r)
	at, missing, key := len(c.keys), -1, r.fixed
	if r.byIP {
		key = m.byIP
	}
	if key == "" {
		source := q.source(route)
		var keys []byte
		keys, missing = identity.AppendKey(c.keys, r.Key, &source, r.OnMissing == UseIP)
		if missing >= 0 && r.OnMissing != UseIP {
			if r.OnMissing == Deny && mode == Enforce {
				if m.Denied == nil {
					m.Denied = &r.Rule
				}
				if m.All {
					m.Missing = append(m.Missing, &r.Rule)
				}
			} else if m.Explain {
				m.skip(r, "the key part "+r.Key[missing].String()+" is missing")
			}
			return false
		}
		c.keys = keys
		key = view(keys[at:])
	}
	if q.call.Cost != 0 {
		cost = q.call.Cost
	}
	if c.raise(first, key, cost) {
		c.keys = c.keys[:at]
		return true
	}
	if r.byIP && missing < 0 {
		m.byIP = key
	}
	c.add(r, limit, key, cost, mode)
	return true
}

// view returns b as a string that shares its memory: Charge.Key may live in a
// reused buffer, and a copy would be an allocation for every charge. Nothing
// writes to these bytes until the Claims are cleared.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
