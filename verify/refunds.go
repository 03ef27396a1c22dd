package verify

import (
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// planned is a charge that is to be refunded some bills later.
type planned struct {
	bill  *weir.Bill
	after int   // at which step
	units int64 // 0 is all
}

// refundsOwedOnly: a refund never makes a balance better than it would be if the
// charge had never been made, each receipt is good once, and a charge refunded
// at once is as if it had not been.
//
// Universe "a" charges and refunds. Universe "b" never makes the charges that
// will be refunded, or makes them smaller by what will be, and skips what "a"
// denies; so at every moment it must hold at least as much.
func refundsOwedOnly(h *history) {
	l := h.limit()
	// In a crowd, charges queue up behind each other and refunds come while
	// some are paid off in part: that is where one may pay for another.
	crowd := h.IntN(2) == 0
	var open []planned
	for step := range 12 {
		if gap := h.Int64N(l.Refill().Microseconds()/8 + 1); !crowd {
			h.pass(l)
		} else if h.now+gap < latest {
			h.at(h.now + gap)
		}
		open = h.refundDue(open, step)
		at := h.shorter(l)
		b := &weir.Bill{Charges: []weir.Charge{h.charge(h.key("a", "k"), at, h.peek(h.key("a", "k"), at).Remaining)}}
		if crowd {
			b.Charges[0].Cost = 1 + h.Int64N(l.Most()/4+1)
		}
		if l.Kind().Bucket() && h.IntN(6) == 0 {
			b.MaxWait = l.Period()
		}
		h.decide(b)
		if h.over() {
			return
		}
		if !b.Allowed {
			continue
		}
		cost := b.Charges[0].Cost
		left := cost
		if h.IntN(2) == 0 {
			p := planned{bill: b, after: step + h.IntN(4)}
			left = 0
			if cost > 1 && h.IntN(3) == 0 {
				p.units = 1 + h.Int64N(cost)
				left = cost - p.units
			}
			open = append(open, p)
		}
		if left > 0 {
			b := h.decide(&weir.Bill{Charges: []weir.Charge{withCost(at.Charge(h.key("b", "k")), left)}, MaxWait: b.MaxWait})
			h.expect("allowed where less was charged", true, b.Allowed)
		}
		h.dominated(l)
	}
	h.at(h.now + 1)
	h.refundAtOnce(l)
	h.refundInQueue(l)
	h.refundAfterStep(l)
}

// shorter returns l, of a leaky bucket often with a shorter queue: a door that
// holds nobody for long asks the same balance so, and by the cost of each request.
func (h *history) shorter(l weir.Limit) weir.Limit {
	if l.Kind() != algo.LeakyBucket || l.Most() < 2 || h.IntN(2) == 0 {
		return l
	}
	return l.Burst(h.Int64N(l.Most()))
}

// refundInQueue checks that who leaves a queue gets all of it back, although
// another stands behind who was asked with another length of the queue.
func (h *history) refundInQueue(l weir.Limit) {
	if l.Kind() != algo.LeakyBucket || l.Most() < 3 || h.over() {
		return
	}
	key := h.key("d", "k")
	first := h.take(l.Charge(key))
	h.take(l.Burst(l.Most() - 2).Charge(key))
	if h.over() {
		return
	}
	h.refund(&first.Charges[0])
	h.expect("refunded to who leaves the queue", int64(1), first.Charges[0].Receipt.Refunded)
	h.expect("remaining after leaving the queue", l.Most()-1, h.peek(key, l).Remaining)
}

// refundDue refunds what is due at step.
func (h *history) refundDue(open []planned, step int) []planned {
	var later []planned
	for _, p := range open {
		if p.after > step {
			later = append(later, p)
			continue
		}
		c := p.bill.Charges[0]
		most := c.Receipt.Cost
		if c.Cost = p.units; p.units > 0 {
			most = p.units
		}
		h.refund(&c)
		if got := c.Receipt.Refunded; got < 0 || got > most {
			h.fail("refunded", most, got)
		}
		h.dominated(c.Limit)
		held := h.peek(c.Key, c.Limit)
		if c.Receipt.Refunded > 0 {
			h.refund(&c)
			h.expect("refunded again", int64(0), c.Receipt.Refunded)
			h.same("balance after refunding again", held, h.peek(c.Key, c.Limit))
		}
	}
	return later
}

// refund refunds one charge and leaves what came back in its receipt.
func (h *history) refund(c *weir.Charge) {
	if h.over() {
		return
	}
	charges := []weir.Charge{*c}
	h.do(h.limiter.Refund(h.ctx, charges...))
	*c = charges[0]
}

// dominated checks that universe "b" holds at least what "a" does.
func (h *history) dominated(l weir.Limit) {
	a, b := h.peek(h.key("a", "k"), l), h.peek(h.key("b", "k"), l)
	if a.Remaining > b.Remaining {
		h.fail("remaining after refunds of "+l.String(), b.Remaining, a.Remaining)
	}
	if a.ResetAfter < b.ResetAfter && l.Kind() != algo.SlidingWindow {
		h.fail("reset after refunds of "+l.String(), b.ResetAfter, a.ResetAfter)
	}
}

// refundAfterStep checks that a receipt from before a step of the clock pays for
// nothing that was charged after it, even at the very instant it names.
func (h *history) refundAfterStep(l weir.Limit) {
	idle := 3*l.Refill().Microseconds() + 2*maxAhead
	if zoneOf(l) != "" || h.over() || h.now+3*idle > latest {
		return
	}
	h.at(h.now + 2*idle)
	first := h.decide(&weir.Bill{Charges: []weir.Charge{withCost(l.Charge(h.key("c", "k")), l.Most())}})
	charged := h.now
	h.at(charged - idle)
	h.take(l.Charge(h.key("c", "k"))) // keeps the new stored time
	h.at(charged)
	whole := withCost(l.Charge(h.key("c", "k")), l.Most())
	h.expect("allowed from idle after a step", true, h.take(whole).Allowed)
	if !h.over() {
		h.refund(&first.Charges[0])
		h.expect("remaining after a refund across a step", int64(0), h.peek(whole.Key, l).Remaining)
	}
}

// refundAtOnce checks that a charge given back before anything else happened
// leaves the balance as it was.
func (h *history) refundAtOnce(l weir.Limit) {
	key := h.key("a", "k")
	before := h.peek(key, l)
	if before.Remaining < 1 {
		return
	}
	b := &weir.Bill{Charges: []weir.Charge{withCost(l.Charge(key), 1+h.Int64N(before.Remaining))}}
	h.decide(b)
	if h.over() {
		return
	}
	h.expect("allowed within remaining", true, b.Allowed)
	c := b.Charges[0]
	cost := c.Cost
	c.Cost = 0
	h.refund(&c)
	h.expect("refunded at once", cost, c.Receipt.Refunded)
	after := h.peek(key, l)
	h.expect("remaining after a refund at once", before.Remaining, after.Remaining)
	if l.Kind().Bucket() {
		h.expect("reset after a refund at once", before.ResetAfter, after.ResetAfter)
	}
	h.expect("retry of a peek", time.Duration(0), after.RetryAfter)
}
