package verify

import (
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// resetForgets: after a reset a balance answers like one never used, and what
// was debited before is not given back.
func resetForgets(h *history) {
	l := h.limit()
	old := &weir.Bill{Charges: []weir.Charge{h.charge(h.key("a", "k"), l, 1)}}
	h.decide(old)
	for range 3 {
		h.pass(l)
		h.take(h.charge(h.key("a", "k"), l, l.Most()))
	}
	if h.over() {
		return
	}
	h.do(h.limiter.Reset(h.ctx, l.Charge(h.key("a", "k"))))
	h.same("balance after reset", h.peek(h.key("b", "k"), l), h.peek(h.key("a", "k"), l))
	for i := range 6 {
		if i > 0 {
			h.pass(l)
		}
		c := h.charge("", l, 1)
		var bills [2]*weir.Bill
		for j, universe := range []string{"a", "b"} {
			c.Key = h.key(universe, "k")
			bills[j] = h.take(c)
		}
		h.sameBills(bills[1], bills[0])
	}
	if old.Allowed && h.caps.Can(algo.Refund) && !h.over() {
		old.Charges[0].Cost = 0
		h.do(h.limiter.Refund(h.ctx, old.Charges...))
		h.expect("refunded after reset", int64(0), old.Charges[0].Receipt.Refunded)
		h.same("balance after a stale refund", h.peek(h.key("b", "k"), l), h.peek(h.key("a", "k"), l))
	}
}

// blockRefuses: a block refuses everything but peeks until its end, to the
// microsecond, and leaves the balance as it is.
func blockRefuses(h *history) {
	l := h.limit()
	for range 3 {
		h.pass(l)
		c := h.charge("", l, 1)
		for _, universe := range []string{"a", "b"} {
			c.Key = h.key(universe, "k")
			h.take(c)
		}
	}
	if h.over() {
		return
	}
	d := time.Duration(2+h.Int64N(5_000_000)) * time.Microsecond
	one := l.Charge(h.key("a", "k"))
	h.do(h.limiter.Block(h.ctx, d, one))
	until := h.now + d.Microseconds()
	for _, t := range []int64{h.now, h.now + h.Int64N(d.Microseconds()), until - 1} {
		h.at(max(t, h.now))
		blocked := h.take(one)
		h.expect("allowed while blocked", false, blocked.Allowed)
		h.expect("reason while blocked", weir.Blocked, blocked.Reason)
		h.expect("peek while blocked", true, h.peek(one.Key, l).Allowed)
		if retry := blocked.RetryAfter.Microseconds(); retry < until-h.now {
			h.fail("retry while blocked", until-h.now, retry)
		} else if t == until-1 && !h.over() && h.now+retry < latest {
			h.retryAfterBlock(one, h.now+retry)
			return
		}
		if h.IntN(4) == 0 && !h.over() {
			h.do(h.limiter.Block(h.ctx, 0, one))
			h.same("balance after the block was lifted", h.peek(h.key("b", "k"), l), h.peek(one.Key, l))
			return
		}
	}
}

// retryAfterBlock checks the wait promised a microsecond before a block ends:
// where the balance is spent too, it is the balance's.
func (h *history) retryAfterBlock(one weir.Charge, at int64) {
	blockEnds := h.now + 1
	if at > blockEnds {
		h.at(blockEnds)
		h.same("balance after the block", h.peek(h.key("b", "k"), one.Limit), h.peek(one.Key, one.Limit))
		h.at(at - 1)
		h.expect("allowed a microsecond early", false, h.take(one).Allowed)
	}
	h.at(at)
	h.expect("allowed at the retry told while blocked", true, h.take(one).Allowed)
}

// changedLimitApplies: under another limit what was used stays used, asking
// changes nothing, and another algorithm, period, name or space is new.
func changedLimitApplies(h *history) {
	l := h.limit()
	for zoneOf(l) != "" {
		l = h.limit()
	}
	charged := false
	for range 4 {
		h.pass(l)
		c := h.charge("", l, 1)
		for _, universe := range []string{"a", "b"} {
			c.Key = h.key(universe, "k")
			charged = h.take(c).Allowed
		}
	}
	key := h.key("a", "k")
	before := h.peek(key, l)
	other := h.withUnits(l)
	for other.Check() != nil {
		other = h.withUnits(l)
	}
	after := h.peek(key, other)
	var want int64
	switch l.Kind() {
	case algo.TokenBucket: // tokens stay, capped
		want = min(before.Remaining, other.Most())
	case algo.LeakyBucket: // the queue stays
		want = max(0, other.Most()-(l.Most()-before.Remaining))
	case algo.SlidingWindow: // the weight of the period before depends on nothing but time
		want = max(0, other.Units()-(l.Units()-before.Remaining))
	default:
		want = max(0, other.Units()-(l.Units()-before.Remaining))
	}
	if charged { // at this instant, so that no time counts at the new rate
		h.expect("remaining of "+l.String()+" made "+other.String(), want, after.Remaining)
	}
	h.take(withCost(other.Charge(key), after.Remaining+1)) // denied
	for _, fresh := range []weir.Charge{
		l.Named("other").Charge(key), other.Named("other").Charge(key), {Key: key, Limit: l, Cost: 1, Space: "elsewhere"},
		weir.Per(1, l.Period()+time.Millisecond).Charge(key), weir.Per(1, l.Period()).Using((l.Kind() + 1) % 5).Charge(key),
	} {
		if fresh.Limit.Check() != nil {
			continue
		}
		fresh.Cost, fresh.Peek = 0, true
		h.expect("remaining of "+fresh.Limit.String()+" beside it", fresh.Limit.Most(), h.take(fresh).Remaining)
	}
	for range 4 {
		h.pass(l)
		c := h.charge("", l, 1)
		var bills [2]*weir.Bill
		for j, universe := range []string{"a", "b"} {
			c.Key = h.key(universe, "k")
			bills[j] = h.take(c)
		}
		h.sameBills(bills[1], bills[0])
	}
}

// clockStepsBack: when the clock steps back nothing is minted and nothing
// freezes. Within ten seconds the stored time is used; beyond it the stored time
// becomes now, and what was held then is held now.
func clockStepsBack(h *history) {
	l := h.limit()
	for zoneOf(l) != "" {
		l = h.limit()
	}
	h.pass(l)
	c := l.Charge(h.key("", "k"))
	c.Cost = pick(h, 1, l.Most(), l.Most())
	first := h.take(c)
	if h.over() || !first.Allowed {
		return
	}
	charged := h.now
	back := pick(h, 1, h.Int64N(maxAhead), maxAhead-1, maxAhead, maxAhead+1, h.Int64N(10*maxAhead))
	h.at(h.now - back)
	kept := h.peek(c.Key, l)
	if l.Kind().Bucket() || l.Kind() == algo.SlidingLog || back <= maxAhead && charged%l.Period().Microseconds() >= back {
		h.expect("remaining after the step", first.Remaining, kept.Remaining)
	}
	if kept.Remaining > first.Remaining {
		h.fail("remaining after the step", first.Remaining, kept.Remaining)
	}
	whole := withCost(c, l.Most())
	denied := h.take(whole) // keeps the new stored time, where it stepped
	if denied.Allowed {
		h.fail("allowed after the step", false, true)
	}
	retry := denied.RetryAfter.Microseconds()
	if longest := 2*l.Refill().Microseconds() + maxAhead; retry > longest {
		h.fail("retry after the step", longest, retry)
	}
	if l.Kind().Bucket() || l.Kind() == algo.SlidingLog {
		want := first.ResetAfter.Microseconds() // from the stored time, which is now
		if back <= maxAhead {
			want += back
		}
		h.expect("reset after the step", want, denied.ResetAfter.Microseconds())
	}
	if h.over() || h.now+retry > latest {
		return
	}
	h.at(h.now + retry - 1)
	h.expect("allowed a microsecond early", false, h.take(whole).Allowed)
	h.at(h.now + 1)
	h.expect("allowed at retry", true, h.take(whole).Allowed)
}
