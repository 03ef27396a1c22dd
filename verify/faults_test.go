//go:build !race

// Nothing here runs at once with anything else, so the race detector would only
// make it slow.

package verify

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// A checker that was never seen to fail proves nothing. Each fault below is one
// that a limiter has shipped, planted in front of a sound store, and names the
// promises that must notice it.
type fault struct {
	name   string
	caught []string // promises, or "vectors"

	now    func(clock *Clock) func() int64                         // a clock gone wrong
	before func(inner weir.Store, b *weir.Bill)                    // changes what the store is asked
	after  func(inner weir.Store, b *weir.Bill)                    // changes what it answered
	verb   func(inner weir.Store, b *weir.Bill) (skip bool)        // for refund, reset and block
	charge func(c *weir.Charge)                                    // whose balance; undone afterwards
	answer func(b *weir.Bill, bal *weir.Balance, d *weir.Decision) // one answer
}

// faulty is a store with a fault.
type faulty struct {
	weir.Store
	fault *fault
}

func (f *faulty) Apply(ctx context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		f.one(ctx, b)
	}
}

func (f *faulty) one(ctx context.Context, b *weir.Bill) {
	kept := slices.Clone(b.Charges)
	if f.fault.charge != nil {
		for i := range b.Charges {
			f.fault.charge(&b.Charges[i])
		}
		defer func() {
			for i := range kept {
				b.Charges[i].Key, b.Charges[i].Limit, b.Charges[i].Space = kept[i].Key, kept[i].Limit, kept[i].Space
			}
		}()
	}
	if b.Verb > algo.Peek {
		if f.fault.verb == nil || !f.fault.verb(f.Store, b) {
			f.Store.Apply(ctx, []*weir.Bill{b})
		}
		return
	}
	if f.fault.before != nil {
		f.fault.before(f.Store, b)
	}
	f.Store.Apply(ctx, []*weir.Bill{b})
	if f.fault.answer != nil {
		f.answers(b)
	}
	if f.fault.after != nil {
		f.fault.after(f.Store, b)
	}
}

// answers lets the fault spoil each answer and concludes the bill from them.
func (f *faulty) answers(b *weir.Bill) {
	for i := range b.Charges {
		for j := range b.Balances() {
			if bal := &b.Balances()[j]; bal.Charge.Key == b.Charges[i].Key && bal.Charge.Limit == b.Charges[i].Limit && bal.Trial == b.Charges[i].Trial {
				f.fault.answer(b, bal, &b.Each[i])
			}
		}
	}
	b.Decision = conclude(b, b.Allowed)
}

// also sends a bill of its own to the store.
func also(inner weir.Store, v algo.Verb, c weir.Charge, cost int64) weir.Decision {
	c.Cost, c.Peek, c.Trial = cost, cost == 0, 0
	b := &weir.Bill{Verb: v, Charges: []weir.Charge{c}}
	if b.Check() == nil {
		inner.Apply(context.Background(), []*weir.Bill{b})
	}
	return b.Decision
}

// weigh prepares a balance anew after its cost or quota was changed.
func weigh(bal *weir.Balance) {
	bal.Never = bal.Cost < 0 || bal.Quota.TooLarge(bal.Cost)
	if !bal.Never && bal.Quota.Kind.Bucket() {
		bal.Debit = bal.Quota.Debit(bal.Cost)
	}
}

func rounded(bal *weir.Balance) bool { return bal.Quota.Kind.Bucket() && bal.View.Phase > 0 }

var faults = []fault{
	{
		name: "one too many", caught: []string{"vectors", "model", "most", "regain"},
		before: func(_ weir.Store, b *weir.Bill) {
			for i := range b.Balances() {
				bal := &b.Balances()[i]
				bal.Quota.N++
				bal.Quota.Capacity++
				weigh(bal)
			}
		},
	},
	{
		name: "> for >=", caught: []string{"vectors", "model", "remaining", "regain", "bill"},
		before: func(inner weir.Store, b *weir.Bill) {
			for i := range b.Balances() {
				bal := &b.Balances()[i]
				if bal.Cost > 0 && also(inner, algo.Peek, *bal.Charge, 0).Remaining == bal.Cost {
					bal.Never = true
				}
			}
		},
	},
	{
		name: "an entry exactly W old still counts", caught: []string{"vectors", "model", "regain"},
		before: func(_ weir.Store, b *weir.Bill) {
			for i := range b.Balances() {
				if q := &b.Balances()[i].Quota; q.Kind == algo.SlidingLog {
					q.Period++
				}
			}
		},
	},
	{
		name: "remaining rounded up", caught: []string{"vectors", "model", "remaining", "bill"},
		answer: func(_ *weir.Bill, bal *weir.Balance, d *weir.Decision) {
			if rounded(bal) && d.Remaining < d.Limit {
				d.Remaining++
			}
		},
	},
	{
		name: "retry rounded down", caught: []string{"vectors", "model", "retry"},
		answer: func(_ *weir.Bill, bal *weir.Balance, d *weir.Decision) {
			if d.RetryAfter > time.Microsecond && rounded(bal) {
				d.RetryAfter -= time.Microsecond
			}
		},
	},
	{
		name: "retry rounded up too far", caught: []string{"vectors", "model", "retry"},
		answer: func(_ *weir.Bill, _ *weir.Balance, d *weir.Decision) {
			if d.RetryAfter > 0 {
				d.RetryAfter += time.Microsecond
			}
		},
	},
	{
		name: "reset rounded down", caught: []string{"vectors", "model"},
		answer: func(_ *weir.Bill, bal *weir.Balance, d *weir.Decision) {
			if rounded(bal) && d.ResetAfter > 0 {
				d.ResetAfter -= time.Microsecond
			}
		},
	},
	{
		name: "delay rounded down", caught: []string{"model"},
		answer: func(_ *weir.Bill, bal *weir.Balance, d *weir.Decision) {
			if d.Delay > time.Microsecond && bal.View.Phase > 0 {
				d.Delay -= time.Microsecond
			}
		},
	},
	{
		name: "the last binds on a tie", caught: []string{"vectors", "model", "bill"},
		after: func(_ weir.Store, b *weir.Bill) {
			for i := int(b.Binding) + 1; i < len(b.Each); i++ {
				same := b.Each[i].Remaining == b.Remaining && b.Each[i].RetryAfter == b.RetryAfter && b.Each[i].Allowed == b.Each[b.Binding].Allowed
				if same && b.Charges[i].Trial == 0 {
					b.Binding = uint8(i)
				}
			}
		},
	},
	{
		name: "a denied charge is debited", caught: []string{"vectors", "model", "denied", "bill"},
		after: func(inner weir.Store, b *weir.Bill) {
			if !b.Allowed && b.Verb == algo.Take {
				for i := range b.Charges {
					also(inner, algo.Take, b.Charges[i], 1)
				}
			}
		},
	},
	{
		name: "a denied bill is debited where it fits", caught: []string{"vectors", "model", "denied", "bill"},
		after: func(inner weir.Store, b *weir.Bill) {
			if !b.Allowed && b.Verb == algo.Take {
				for i := range b.Charges {
					if b.Each[i].Allowed && b.Charges[i].Cost > 0 {
						also(inner, algo.Take, b.Charges[i], b.Charges[i].Cost)
					}
				}
			}
		},
	},
	{
		name: "a peek is debited", caught: []string{"vectors", "model", "peek", "bill"},
		after: func(inner weir.Store, b *weir.Bill) {
			for i := range b.Charges {
				if b.Charges[i].Peek || b.Verb == algo.Peek {
					also(inner, algo.Take, b.Charges[i], 1)
				}
			}
		},
	},
	{
		name: "one balance twice in a bill counts once", caught: []string{"vectors", "model", "bill"},
		before: func(_ weir.Store, b *weir.Bill) {
			for i := range b.Balances() {
				bal := &b.Balances()[i]
				bal.Cost = bal.Charge.Cost
				weigh(bal)
			}
		},
	},
	{
		name: "a trial decides", caught: []string{"model"},
		before: func(_ weir.Store, b *weir.Bill) {
			for i := range b.Balances() {
				b.Balances()[i].Trial = 0
			}
		},
	},
	{
		name: "a wait is not granted", caught: []string{"model"},
		before: func(_ weir.Store, b *weir.Bill) { b.MaxWait = 0 },
	},
	{
		name: "a changed limit starts anew", caught: []string{"vectors", "model", "changed"},
		charge: func(c *weir.Charge) { c.Key += c.Limit.String() },
	},
	{
		name: "names share a balance", caught: []string{"model", "changed"},
		charge: func(c *weir.Charge) { c.Limit = c.Limit.Named("") },
	},
	{
		name: "spaces share a balance", caught: []string{"model", "changed"},
		charge: func(c *weir.Charge) { c.Space = "" },
	},
	{
		name: "time never goes back", caught: []string{"vectors", "model", "clock"},
		now: func(clock *Clock) func() int64 {
			var latest, last int64
			return func() int64 {
				now := clock.Now()
				if now < last-7_300_000_000 || now > last+30*86_400_000_000 { // another history
					latest = now
				}
				last = now
				latest = max(latest, now)
				return latest
			}
		},
	},
	{
		name: "time that went back counts twice", caught: []string{"vectors", "model", "clock"},
		now: func(clock *Clock) func() int64 {
			var minted, last int64
			return func() int64 {
				now := clock.Now()
				if now < last {
					minted += last - now
				}
				last = now
				return now + minted
			}
		},
	},
	{
		name: "a clock in milliseconds", caught: []string{"vectors", "model", "retry", "regain"},
		now: func(clock *Clock) func() int64 { return func() int64 { return clock.Now() / 1000 * 1000 } },
	},
	{
		name: "a receipt is good twice", caught: []string{"refund"},
		verb: func(_ weir.Store, b *weir.Bill) bool {
			for i := range b.Charges {
				b.Charges[i].Receipt.ID = rand.Uint64() | 1
			}
			return false
		},
	},
	{
		name: "a refund adds back what time has paid", caught: []string{"refund"},
		verb: func(_ weir.Store, b *weir.Bill) bool {
			for i := range b.Charges {
				if b.Charges[i].Limit.Kind().Bucket() {
					b.Charges[i].Receipt.Due += 1 << 48
				}
			}
			return false
		},
	},
	{
		name: "a refund gives nothing", caught: []string{"refund"},
		verb: func(_ weir.Store, b *weir.Bill) bool { return b.Verb == algo.Refund },
	},
	{
		name: "a reset does nothing", caught: []string{"reset", "model"},
		verb: func(_ weir.Store, b *weir.Bill) bool { return b.Verb == algo.Reset },
	},
	{
		name: "a block does nothing", caught: []string{"block", "model"},
		verb: func(_ weir.Store, b *weir.Bill) bool { return b.Verb == algo.Block },
	},
	{
		name: "a block ends early", caught: []string{"block", "model"},
		verb: func(_ weir.Store, b *weir.Bill) bool {
			b.BlockFor = max(0, b.BlockFor-time.Microsecond)
			return false
		},
	},
}

// TestFaults demands that the suite finds every planted fault, by each promise
// that should, and finds nothing where there is none.
func TestFaults(t *testing.T) {
	sound := fault{name: "none"}
	t.Run(sound.name, func(t *testing.T) {
		if r := runFaulty(t, &sound, ""); r.Failed > 0 {
			t.Errorf("a sound store failed: %+v", r.Failures[0])
		}
	})
	for i := range faults {
		f := &faults[i]
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for _, promise := range f.caught {
				if r := runFaulty(t, f, promise); r.Failed == 0 {
					t.Errorf("%s did not notice, in %d", promise, r.Passed)
				}
			}
		})
	}
}

// runFaulty runs one promise, the vectors, or with "" everything on a faulty
// store.
func runFaulty(t *testing.T, f *fault, promise string) Report {
	t.Helper()
	open := func(clock *Clock) (weir.Store, error) {
		now := clock.Now
		if f.now != nil {
			now = f.now(clock)
		}
		return &faulty{weir.NewMemory(weir.MemoryOptions{Now: now}), f}, nil
	}
	if promise == "vectors" {
		cases, err := Embedded()
		if err != nil {
			t.Fatal(err)
		}
		r, err := Vectors(context.Background(), cases, open)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	o := Options{Histories: 500, Seed: 7}
	if promise != "" {
		o.Only = []string{promise}
	}
	r, err := Run(context.Background(), open, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
