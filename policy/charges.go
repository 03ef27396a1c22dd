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
//	                         → limit (override, plan, rule) → key → charge, and its try
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
	asked := m.asked == call
	q := p.request(call, caller, m)
	if !asked && p.mayExempt(m) && p.exempt(p.early, p.earlyIndex, &q, m) || p.exempt(p.late, p.lateIndex, &q, m) {
		m.Exempt = true
		return nil
	}
	if p.rejectTwice && len(m.readings) > 1 {
		return &weir.InputError{Field: "path", Problem: "can be read in more than one way, and such paths are refused here"}
	}
	if len(p.rules) == 0 {
		return nil
	}
	if s := p.sketched(m); s != nil {
		for i := range s.rules {
			if p.chargeSketched(&s.rules[i], &q, m); m.Denied != nil {
				return nil
			}
		}
	} else {
		m.clearFound(len(p.rules))
		for _, q.path = range m.readings {
			p.index.find(m.found, &q)
		}
		if m.Explain { // every rule has to say why not
			for i := range p.rules {
				m.found.add([]int{i})
			}
		}
		for i := range m.found.all {
			if p.charge(&p.rules[i], &q, m); m.Denied != nil {
				return nil
			}
		}
	}
	if len(m.Charges) > algo.MaxCharges {
		return &weir.InputError{Field: "limits", Problem: "more than 32 limits apply to this request, and a bill holds no more; narrow the match: of some rules"}
	}
	return nil
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

// charge adds what r charges under any reading of the request.
func (p *Policy) charge(r *rule, q *request, m *Match) {
	first := len(m.Charges)
	for i := range m.readings {
		q.path = m.readings[i]
		if why := r.match.match(q); why != holds {
			if m.Explain && i == len(m.readings)-1 && len(m.Charges) == first {
				m.skip(r, missWords[why]+" does not match")
			}
			continue
		}
		if r.not.given && r.not.match(q) == holds {
			m.skip(r, "match.not excludes it")
			continue
		}
		limit := p.limit(r, q.caller)
		if limit == (weir.Limit{}) {
			m.skip(r, "the caller's plan has no limit here")
			return
		}
		route := ""
		if r.routed {
			route = r.routeOf(q.path)
		}
		if !r.add(q, m, first, limit, route, r.costOf(q.path)) {
			return
		}
	}
}

// add charges r under one reading, which has the route and the cost. Charges of r
// under earlier readings begin at first. It returns false if the rule is through.
func (r *rule) add(q *request, m *Match, first int, limit weir.Limit, route string, cost int64) bool {
	mode := m.Modes.of(r)
	at, missing, key := len(m.keys), -1, r.fixed
	if r.byIP {
		key = m.byIP
	}
	if key == "" {
		source := q.source(route)
		var keys []byte
		keys, missing = identity.AppendKey(m.keys, r.Key, &source, r.OnMissing == UseIP)
		if missing >= 0 && r.OnMissing != UseIP {
			if r.OnMissing == Deny && mode == Enforce {
				m.deny(r)
			} else if m.Explain {
				m.skip(r, "the key part "+r.Key[missing].String()+" is missing")
			}
			return false
		}
		m.keys = keys
		key = view(keys[at:])
	}
	if q.call.Cost != 0 {
		cost = q.call.Cost
	}
	if raise(m.Charges[first:], key, cost) {
		m.keys = m.keys[:at]
		return true
	}
	if r.byIP && missing < 0 {
		m.byIP = key
	}
	live := len(m.Charges)
	charge := m.enter(r, r.expose && mode == Enforce, false)
	charge.Key, charge.Limit, charge.Cost, charge.Peek, charge.Space, charge.Group = key, limit, cost, cost == 0, r.space, r.group(key)
	if mode == Shadow {
		charge.Trial = -1
	}
	if r.hasTry {
		try := m.enter(r, false, true)
		*try = m.Charges[live]
		try.Limit, try.Space, try.Trial = r.Try, r.trySpace, -1
		// A try stands in for its live charge, where there is one that decides:
		// a shadow decides nothing, and an unlimited charge has no balance.
		if mode == Enforce && !limit.IsUnlimited() && live < algo.MaxCharges {
			try.Trial = int8(live + 1)
		}
	}
	return true
}

// raise lifts the charges on key to cost, and reports whether there are any.
func raise(charges []weir.Charge, key string, cost int64) bool {
	found := false
	for i := range charges {
		if c := &charges[i]; c.Key == key {
			found = true
			if cost > c.Cost {
				c.Cost, c.Peek = cost, false
			}
		}
	}
	return found
}

// view returns b as a string that shares its memory: Charge.Key may live in a
// reused buffer, and a copy would be an allocation for every charge. Nothing
// writes to these bytes until the Match is filled again.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
