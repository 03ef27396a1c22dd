package verify

import (
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// scene is a few limits and keys that a history's bills are made of.
type scene struct {
	limits []weir.Limit
	keys   []string
	left   map[string]int64 // last seen, to choose costs by
}

func (h *history) scene() *scene {
	s := &scene{left: map[string]int64{}, keys: []string{"u", "v"}}
	for _, name := range []string{"", "", "named"} {
		s.limits = append(s.limits, h.limit().Named(name))
	}
	return s
}

// bill returns random charges on the keys of universe "a".
func (h *history) bill(s *scene) []weir.Charge {
	var charges []weir.Charge
	for range 1 + h.IntN(3) {
		l := pick(h, s.limits...)
		key := pick(h, s.keys...)
		charges = append(charges, h.charge(h.key("a", key), l, s.left[key]))
	}
	return charges
}

// sameElsewhere returns the charges on the keys of another universe.
func (h *history) sameElsewhere(charges []weir.Charge, universe string) []weir.Charge {
	moved := append([]weir.Charge(nil), charges...)
	for i := range moved {
		name := moved[i].Key[len(h.key("a", "")):]
		moved[i].Key = h.key(universe, name)
	}
	return moved
}

func (s *scene) note(h *history, b *weir.Bill) {
	for i := range b.Charges {
		s.left[b.Charges[i].Key[len(h.key("a", "")):]] = b.Each[i].Remaining
	}
}

// conflict reports two limits on one balance, which a bill may not hold.
func conflict(charges []weir.Charge) bool {
	for i := range charges {
		for j := range i {
			a, b := charges[i], charges[j]
			if ownerOf(&a) == ownerOf(&b) && a.Limit != b.Limit {
				return true
			}
		}
	}
	return false
}

// deniedChangesNothing: a universe in which bills are denied answers like one in
// which they were never sent.
func deniedChangesNothing(h *history) {
	s := h.scene()
	for range 12 {
		h.pass(pick(h, s.limits...))
		charges := h.bill(s)
		if conflict(charges) {
			continue
		}
		with := h.take(charges...)
		s.note(h, with)
		if !with.Allowed {
			continue
		}
		h.sameBills(h.take(h.sameElsewhere(charges, "b")...), with)
	}
	h.balancesAlike(s)
}

// balancesAlike compares what universes "a" and "b" hold.
func (h *history) balancesAlike(s *scene) {
	for _, l := range s.limits {
		for _, key := range s.keys {
			h.same("balance under "+l.String(), h.peek(h.key("b", key), l), h.peek(h.key("a", key), l))
		}
	}
}

// peekChangesNothing: a universe in which everybody peeks answers like one in
// which nobody does; and a peek answers what a take then does.
func peekChangesNothing(h *history) {
	s := h.scene()
	for range 10 {
		h.pass(pick(h, s.limits...))
		charges := h.bill(s)
		if conflict(charges) {
			continue
		}
		asked := h.decide(&weir.Bill{Verb: algo.Peek, Charges: append([]weir.Charge(nil), charges...)})
		for _, l := range s.limits {
			d := h.peek(h.key("a", pick(h, s.keys...)), l)
			h.expect("peek allowed", true, d.Allowed)
			h.expect("peek's reason", weir.OK, d.Reason)
			h.expect("peek's retry and delay", time.Duration(0), d.RetryAfter+d.Delay)
		}
		with := h.take(charges...)
		s.note(h, with)
		h.expect("allowed as peeked", asked.Allowed, with.Allowed)
		h.expect("retry as peeked", asked.RetryAfter, with.RetryAfter)
		h.sameBills(h.take(h.sameElsewhere(charges, "b")...), with)
	}
	h.balancesAlike(s)
}

// allOrNothing: a bill is admitted if each balance would admit its sum, and then
// every balance is debited by exactly that; otherwise none is.
func allOrNothing(h *history) {
	s := h.scene()
	for range 10 {
		h.pass(pick(h, s.limits...))
		charges := h.bill(s)
		if conflict(charges) {
			continue
		}
		groups, of := join(charges)
		before := make([]weir.Decision, len(groups))
		fit := true
		for j := range groups {
			c := charges[index(of, j)]
			before[j] = h.peek(c.Key, c.Limit)
			fit = fit && groups[j].cost <= before[j].Remaining
		}
		b := h.take(charges...)
		s.note(h, b)
		h.expect("allowed though not each fits, or denied though each does", fit, b.Allowed)
		for j := range groups {
			c := charges[index(of, j)]
			want := before[j]
			if b.Allowed {
				want.Remaining -= groups[j].cost
			}
			after := h.peek(c.Key, c.Limit)
			h.expect("remaining of "+c.Limit.String(), want.Remaining, after.Remaining)
			if !b.Allowed {
				h.same("balance after a denied bill", want, after)
			}
		}
		if !h.over() {
			h.same("binding", conclude(b, fit), b.Decision)
		}
	}
}

// index returns where v first stands.
func index(of []int, v int) int {
	for i := range of {
		if of[i] == v {
			return i
		}
	}
	return -1
}
