package policy

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Claims are what rules want of requests, one after the other, before they are
// written out as charges. A charge is long and most of it is its rule's; who
// matches requests on one core and decides them on another hands over claims.
//
//	Policy.Claim ─→ Claims ─→ Match.Charge
//
// The zero value is empty. It is used by one goroutine at a time, and its keys
// live in its own buffer, until Clear.
type Claims struct {
	list   []claim
	keys   []byte
	limits []weir.Limit // that are no rule's own
}

// claim is one rule's charge and its try.
type claim struct {
	rule  *rule
	limit *weir.Limit
	key   string
	cost  int64
	mode  Mode
}

// Len returns how many claims there are.
func (c *Claims) Len() int { return len(c.list) }

// At returns of claim i the place of its rule among the policy's rules, its key,
// and whether it comes with a try, which has the same key.
func (c *Claims) At(i int) (rule int, key string, try bool) {
	at := &c.list[i]
	return at.rule.number, at.key, at.rule.hasTry
}

// Clear empties c and keeps the room.
func (c *Claims) Clear() { c.cut(Claims{}) }

// cut takes back what was added since c was as before, which is a copy of it.
func (c *Claims) cut(before Claims) {
	c.list, c.keys, c.limits = c.list[:len(before.list)], c.keys[:len(before.keys)], c.limits[:len(before.limits)]
}

// add adds a claim. It is filled in place: what is copied whole right after it was
// written makes the processor wait.
func (c *Claims) add(r *rule, limit *weir.Limit, key string, cost int64, mode Mode) {
	n := len(c.list)
	if n < cap(c.list) {
		c.list = c.list[:n+1]
	} else {
		c.list = append(c.list, claim{})
	}
	at := &c.list[n]
	at.rule, at.limit, at.key, at.cost, at.mode = r, limit, key, cost, mode
}

// keep returns a pointer to l that is good until Clear.
func (c *Claims) keep(l weir.Limit) *weir.Limit {
	c.limits = append(c.limits, l)
	return &c.limits[len(c.limits)-1]
}

// raise lifts the claim on key among those from first on to cost, and reports
// whether there is one.
func (c *Claims) raise(first int, key string, cost int64) bool {
	for i := first; i < len(c.list); i++ {
		if c.list[i].key == key {
			c.list[i].cost = max(c.list[i].cost, cost)
			return true
		}
	}
	return false
}

// charges returns how many charges the claims from first on come to.
func (c *Claims) charges(first int) int {
	n := 0
	for i := first; i < len(c.list); i++ {
		if n++; c.list[i].rule.hasTry {
			n++
		}
	}
	return n
}

// Charge fills m.Charges, and what goes with them, from the claims of one
// request, which are those from first up to end. Their keys are c's.
func (m *Match) Charge(c *Claims, first, end int) {
	m.Charges, m.Rules, m.from = m.Charges[:0], m.Rules[:0], m.from[:0]
	for i := first; i < end; i++ {
		at := &c.list[i]
		r := at.rule
		group := r.group(at.key)
		live := len(m.Charges)
		m.enter(at, origin{rule: r, shown: r.expose && at.mode == Enforce}, at.limit, r.space, group)
		if at.mode == Shadow {
			m.Charges[live].Trial = -1
		}
		if r.hasTry {
			try := m.enter(at, origin{rule: r, try: true}, &r.Try, r.trySpace, group)
			try.Trial = -1
			// A try stands in for its live charge, where there is one that decides:
			// a shadow decides nothing, and an unlimited charge has no balance.
			if at.mode == Enforce && !at.limit.IsUnlimited() && live < algo.MaxCharges {
				try.Trial = int8(live + 1)
			}
		}
	}
}

// enter adds a charge. It is long, and filled in place.
func (m *Match) enter(at *claim, of origin, limit *weir.Limit, space, group string) *weir.Charge {
	n := len(m.Charges)
	if n < cap(m.Charges) {
		m.Charges = m.Charges[:n+1]
	} else {
		m.Charges = append(m.Charges, weir.Charge{})
	}
	m.Rules = append(m.Rules, &of.rule.Rule)
	m.from = append(m.from, of)
	c := &m.Charges[n]
	c.Limit = *limit
	c.Receipt = weir.Receipt{}
	c.Key, c.Cost, c.Peek, c.Trial, c.Space, c.Group = at.key, at.cost, at.cost == 0, 0, space, group
	return c
}
