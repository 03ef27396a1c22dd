package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// A history is random traffic on a store under a virtual clock. Many share a
// store: each has keys of its own, and where a promise compares "with" and
// "without", the two run side by side as two universes, which are two sets of
// keys that see the same clock.
type history struct {
	*rand.Rand
	ctx     context.Context
	limiter *weir.Limiter
	clock   *Clock
	caps    weir.Caps
	name    string
	now     int64
	step    int // bills decided
	last    time.Duration
	failure *Failure
	err     error
}

// latest keeps histories within what every store can represent.
const latest = 4_100_000_000_000_000 // the year 2099

func newHistory(ctx context.Context, l *weir.Limiter, caps weir.Caps, clock *Clock, seed uint64, n int) *history {
	h := &history{
		Rand: rand.New(rand.NewPCG(seed, uint64(n))), ctx: ctx,
		limiter: l, caps: caps, clock: clock, name: fmt.Sprintf("verify/%x/%d", seed, n),
	}
	h.now = 1_700_000_000_000_000 + h.Int64N(300_000_000_000_000) // 2023 to 2033
	if h.IntN(3) == 0 {
		h.now -= h.now % 86_400_000_000 // a midnight
	}
	clock.Set(h.now)
	return h
}

func (h *history) can(verbs []algo.Verb) bool {
	for _, v := range verbs {
		if !h.caps.Can(v) {
			return false
		}
	}
	return true
}

// over reports whether the history has ended, by a failure or an error.
func (h *history) over() bool { return h.failure != nil || h.err != nil }

// expect notes a failure unless got is want.
func (h *history) expect(field string, want, got any) bool {
	if want != got {
		h.fail(field, want, got)
	}
	return want == got
}

func (h *history) fail(field string, want, got any) {
	if h.failure == nil {
		h.failure = &Failure{Step: h.step, Field: field, Want: want, Got: got}
	}
}

// same notes a failure unless two decisions are equal but for their source.
func (h *history) same(field string, want, got weir.Decision) bool {
	want.Source, got.Source = "", ""
	return h.expect(field, want, got)
}

// sameBills compares two bills charge by charge.
func (h *history) sameBills(want, got *weir.Bill) {
	if h.over() {
		return
	}
	for i := range want.Each {
		if !h.same(fmt.Sprintf("charges[%d] %s", i, want.Charges[i].Limit), want.Each[i], got.Each[i]) {
			return
		}
	}
	h.same("bill", want.Decision, got.Decision)
}

// key returns a key of a universe.
func (h *history) key(universe, name string) string { return h.name + "/" + universe + "/" + name }

// decide sends a bill to the store.
func (h *history) decide(b *weir.Bill) *weir.Bill { return h.decideBy(h.limiter, b) }

func (h *history) decideBy(l *weir.Limiter, b *weir.Bill) *weir.Bill {
	b.Each = append(b.Each, make([]weir.Decision, len(b.Charges))...)
	if h.over() {
		return b
	}
	h.step++
	if h.err = l.Decide(h.ctx, b); h.err == nil {
		h.err = b.Err
	}
	if b.RetryAfter > 0 {
		h.last = b.RetryAfter
	}
	return b
}

func (h *history) take(charges ...weir.Charge) *weir.Bill {
	return h.decide(&weir.Bill{Charges: charges})
}

// peek reports a balance.
func (h *history) peek(key string, l weir.Limit) weir.Decision {
	c := l.Charge(key)
	c.Cost, c.Peek = 0, true
	return h.take(c).Each[0]
}

// do runs a verb without an answer.
func (h *history) do(err error) {
	if h.err == nil {
		h.err = err
	}
}

// at moves the clock.
func (h *history) at(us int64) {
	h.now = us
	h.clock.Set(us)
}

// pass lets time go by: often none, often to an instant at which something
// about l changes, or a microsecond beside it.
func (h *history) pass(l weir.Limit) {
	period := l.Period().Microseconds()
	var gap int64
	switch h.IntN(12) {
	case 0, 1:
	case 2:
		gap = 1 + h.Int64N(3)
	case 3: // about one unit
		gap = period/max(1, l.Units()) + h.Int64N(3) - 1
	case 4:
		gap = h.Int64N(period/max(1, l.Units()) + 1)
	case 5:
		gap = h.Int64N(period)
	case 6:
		gap = period + h.Int64N(3) - 1
	case 7, 8: // about an edge of an aligned period
		gap = period - h.now%period + h.Int64N(3) - 1
	case 9, 10: // about what was last promised
		gap = h.last.Microseconds() + h.Int64N(3) - 1
	case 11:
		gap = h.Int64N(3 * period)
	}
	if gap > 0 && h.now+gap < latest {
		h.at(h.now + gap)
	}
}

func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }

// limit returns a random limit of any algorithm.
func (h *history) limit() weir.Limit { return h.limitOf(pick(h, algo.Kinds[:]...)) }

func (h *history) limitOf(kind algo.Kind) weir.Limit {
	for {
		if kind == algo.FixedWindow && h.IntN(8) == 0 {
			return h.calendarLimit()
		}
		l := h.withUnits(weir.Per(1, pick(h, periods...)).Using(kind))
		if l.Check() == nil {
			return l
		}
	}
}

var periods = []time.Duration{
	time.Millisecond, 7 * time.Millisecond, 333 * time.Millisecond, time.Second, time.Second, 3 * time.Second, 10 * time.Second,
	time.Minute, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 366 * 24 * time.Hour,
}

// withUnits returns l, another limit on the same balance: with other units and
// another burst.
func (h *history) withUnits(l weir.Limit) weir.Limit {
	n := pick[int64](h, 1, 1, 2, 3, 3, 5, 7, 10, 10, 60, 97, 100, 1000, 4999, 1_000_000, 999_999_937, 1_000_000_000)
	if l.Kind() == algo.SlidingLog && n > 5_000 {
		n = 12
	}
	changed := weir.Per(n, l.Period()).Using(l.Kind()).Named(l.Name())
	switch {
	case l.Kind() == algo.TokenBucket && h.IntN(2) == 0:
		changed = changed.Burst(max(1, pick(h, 1, n/2, n+1, 2*n, 1+h.Int64N(20))))
	case l.Kind() == algo.LeakyBucket && h.IntN(4) > 0:
		changed = changed.Burst(pick(h, 1, n, n/2, h.Int64N(20)))
	}
	return changed
}

func (h *history) calendarLimit() weir.Limit {
	l, err := weir.ParseLimit(fmt.Sprintf("%d/%s algorithm=fixed_window tz=%s", 1+h.IntN(9),
		pick(h, "day", "week", "month", "year"), pick(h, "UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut")))
	if err != nil {
		h.err = err
		return weir.PerSecond(1).Using(algo.FixedWindow)
	}
	return l
}

// cost returns a random cost for l of which remaining could be taken.
func (h *history) cost(l weir.Limit, remaining int64) int64 {
	switch h.IntN(12) {
	case 0, 1, 2, 3:
		return 1
	case 4:
		return 2
	case 5, 6:
		return 1 + h.Int64N(max(1, l.Most()))
	case 7:
		return max(1, l.Most())
	case 8, 9:
		return max(1, remaining)
	case 10:
		return remaining + 1
	}
	return pick(h, l.Most()+1, algo.MaxCost)
}

// charge returns a random charge on key.
func (h *history) charge(key string, l weir.Limit, remaining int64) weir.Charge {
	c := l.Charge(key)
	c.Cost = h.cost(l, remaining)
	return c
}
