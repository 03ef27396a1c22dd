package verify

import (
	"math/big"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// promise is something the contract says of any traffic. check plays one random
// history and notes in it what was not kept.
type promise struct {
	name  string
	check func(*history)
	needs []algo.Verb
}

// promises are all of them. "model" stands several times because it is the
// strictest: every field of every answer.
var promises = []promise{
	{"model", equalsModel, nil},
	{"retry", retryIsExact, nil},
	{"most", mostInPeriod, nil},
	{"model", equalsModel, nil},
	{"remaining", remainingIsExact, nil},
	{"denied", deniedChangesNothing, nil},
	{"peek", peekChangesNothing, nil},
	{"model", equalsModel, nil},
	{"bill", allOrNothing, nil},
	{"regain", regainsExactly, nil},
	{"refund", refundsOwedOnly, []algo.Verb{algo.Refund}},
	{"model", equalsModel, nil},
	{"reset", resetForgets, []algo.Verb{algo.Reset}},
	{"block", blockRefuses, []algo.Verb{algo.Block}},
	{"changed", changedLimitApplies, nil},
	{"clock", clockStepsBack, nil},
}

// retryIsExact: a denied bill is denied until a microsecond before its retry
// time and admitted at it; one that can never fit is denied for good.
func retryIsExact(h *history) {
	limits := []weir.Limit{h.limit(), h.limit().Named("second")}
	for range 10 {
		charges := []weir.Charge{h.charge(h.key("", "k"), limits[0], 1)}
		if h.IntN(3) == 0 {
			charges = append(charges, h.charge(h.key("", "k"), limits[1], 1))
		}
		h.pass(limits[0])
		b := h.take(charges...)
		if h.over() {
			return
		}
		retry := b.RetryAfter
		switch {
		case b.Allowed:
			h.expect("retry of an admitted bill", int64(0), int64(retry))
		case retry == weir.Never:
			h.at(min(h.now+10*limits[0].Period().Microseconds(), latest))
			h.expect("allowed after never", false, h.take(charges...).Allowed)
		case retry <= 0:
			h.fail("retry of a denied bill", "positive", retry)
		case h.now+retry.Microseconds() < latest:
			h.at(h.now + retry.Microseconds() - 1)
			if b = h.take(charges...); !h.over() {
				h.expect("allowed a microsecond early", false, b.Allowed)
				h.expect("retry a microsecond early", int64(1), b.RetryAfter.Microseconds())
			}
			h.at(h.now + 1)
			h.expect("allowed at retry", true, h.take(charges...).Allowed)
		}
	}
}

// mostInPeriod: what is admitted in any span of a period stays within what the
// contract states, and windows keep to their units in each aligned period.
func mostInPeriod(h *history) {
	l := h.limit()
	if zoneOf(l) != "" {
		return
	}
	period, units := l.Period().Microseconds(), l.Units()
	bound := map[algo.Kind]int64{
		algo.TokenBucket: l.Most() + units, algo.LeakyBucket: l.Most() + units,
		algo.FixedWindow: 2 * units, algo.SlidingWindow: 2*units - 1, algo.SlidingLog: units,
	}[l.Kind()]
	h.expect("most in a period", bound, l.MostInPeriod())
	var admitted []logged
	for range 14 {
		h.pass(l)
		c := l.Charge(h.key("", "k"))
		if c.Cost = max(1, h.peek(c.Key, l).Remaining+h.Int64N(2)); h.take(c).Allowed {
			admitted = append(admitted, logged{h.now, c.Cost})
		}
	}
	for _, last := range admitted {
		var span, aligned int64
		for _, a := range admitted {
			if a.at > last.at-period && a.at <= last.at {
				span += a.cost
			}
			if a.at/period == last.at/period {
				aligned += a.cost
			}
		}
		if span > bound {
			h.fail("admitted in one period of "+l.String(), bound, span)
		}
		if l.Kind().Window() && aligned > units {
			h.fail("admitted in one aligned period of "+l.String(), units, aligned)
		}
	}
}

// remainingIsExact: what is reported as remaining can be taken, and one more
// cannot.
func remainingIsExact(h *history) {
	l := h.limit()
	for range 8 {
		h.pass(l)
		cost := h.cost(l, 1)
		for _, universe := range []string{"a", "b"} {
			c := l.Charge(h.key(universe, "k"))
			c.Cost = cost
			h.take(c)
		}
		h.pass(l)
		over := l.Charge(h.key("a", "k"))
		left := h.peek(over.Key, l).Remaining
		over.Cost = left + 1
		if h.take(over).Allowed {
			h.fail("remaining", "more", left)
		}
		if all := l.Charge(h.key("b", "k")); left > 0 {
			all.Cost = left
			h.expect("remaining admitted", true, h.take(all).Allowed)
			h.expect("remaining after all was taken", int64(0), h.peek(all.Key, l).Remaining)
			h.take(withCost(l.Charge(h.key("a", "k")), left)) // the universes stay alike
		}
	}
}

func withCost(c weir.Charge, cost int64) weir.Charge {
	c.Cost = cost
	return c
}

// regainsExactly: from spent, a balance comes back as its algorithm says, to the
// unit, after any time.
func regainsExactly(h *history) {
	l := h.limit()
	if zoneOf(l) != "" {
		return
	}
	h.pass(l)
	start := h.now
	spend := withCost(l.Charge(h.key("", "k")), l.Most())
	h.expect("allowed from idle", true, h.take(spend).Allowed)
	period := l.Period().Microseconds()
	for range 10 {
		h.pass(l)
		since := new(big.Int).Mul(big.NewInt(h.now-start), big.NewInt(l.Units()))
		want := int64(0)
		switch edge := (start/period + 1) * period; l.Kind() {
		case algo.TokenBucket, algo.LeakyBucket:
			want = l.Most()
			if regained := since.Div(since, big.NewInt(period)); regained.Cmp(big.NewInt(want)) < 0 {
				want = regained.Int64()
			}
		case algo.SlidingLog:
			if h.now >= start+period {
				want = l.Units()
			}
		case algo.FixedWindow:
			if h.now >= edge {
				want = l.Units()
			}
		case algo.SlidingWindow: // L - ceil(L*(W-e)/W) = floor(L*e/W)
			if h.now >= edge {
				faded := new(big.Int).Mul(big.NewInt(min(h.now-edge, period)), big.NewInt(l.Units()))
				want = faded.Div(faded, big.NewInt(period)).Int64()
			}
		}
		h.expect("regained of "+l.String(), want, h.peek(spend.Key, l).Remaining)
	}
}
