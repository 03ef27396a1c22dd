package regional

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/redisstore"
)

// books keeps a region's counters in maps and its balances in a memory store, as
// redisstore does in Redis. A debit that overdraws is a take that may wait, which
// is why only buckets are shown.
type books struct {
	limiter *weir.Limiter // the store alone, without the region's layer
	limit   weir.Limit
	told    map[string]*redisstore.Consumption
	heard   map[string]*heard // by region and balance
	calls   int64             // of Tell and Hear together, as script calls would be
	items   int64             // heard
}

type heard struct{ out, guessed int64 }

// perCall is how many balances a script call of redisstore takes.
const perCall = 128

func newBooks(l *weir.Limiter, limit weir.Limit) *books {
	return &books{limiter: l, limit: limit, told: map[string]*redisstore.Consumption{}, heard: map[string]*heard{}}
}

// Consumed implements regions.Books.
func (b *books) Consumed(c *weir.Charge, q *algo.Quota, _ *algo.View, units int64) redisstore.Consumption {
	d := redisstore.Consumption{Balance: stored + c.Key, Kind: q.Kind, N: q.N, Period: q.Period, Most: q.Most(), Out: units}
	if units < 0 {
		d.Out, d.Back = 0, -units
	}
	return d
}

// stored stands for what a stored key has before the caller's, in bytes.
const stored = "1:{1023}:tmin:15:rule/per-tenant/tenant0:="

// Tell implements regions.Books.
func (b *books) Tell(_ context.Context, taken []*redisstore.Consumption) error {
	b.calls += int64(len(taken)+perCall-1) / perCall
	for _, c := range taken {
		t := b.told[c.Balance]
		if t == nil {
			t = new(redisstore.Consumption)
			b.told[c.Balance] = t
		}
		t.Out += c.Out
		t.Back += c.Back
		c.Out, c.Back, c.Incarnation, c.Recent = t.Out, t.Back, "run-id-8-bytes!", true
	}
	return nil
}

// Hear implements regions.Books.
func (b *books) Hear(ctx context.Context, region string, taken []*redisstore.Consumption) (map[*redisstore.Consumption]redisstore.Heard, error) {
	outcome := make(map[*redisstore.Consumption]redisstore.Heard, len(taken))
	b.calls += int64(len(taken)+perCall-1) / perCall
	b.items += int64(len(taken))
	for _, c := range taken {
		h := b.heard[region+" "+c.Balance]
		if h == nil {
			h = new(heard)
			b.heard[region+" "+c.Balance] = h
		}
		more := c.Out
		if c.Guess {
			h.guessed += more
		} else {
			more = max(0, c.Out-h.out)
			if more == 0 {
				continue
			}
			h.out = c.Out
			more -= min(h.guessed, more)
			h.guessed = 0
		}
		outcome[c] = redisstore.HeardDebit
		if err := b.debit(ctx, c, more); err != nil {
			return outcome, err
		}
	}
	return outcome, nil
}

// debit takes units from the balance, overdrawing it by the debt at the most.
func (b *books) debit(ctx context.Context, c *redisstore.Consumption, units int64) error {
	if b.limiter == nil { // a fleet's: only what is sent counts
		return nil
	}
	wait := time.Duration(float64(c.Debt) * float64(b.limit.Period()) / float64(b.limit.Units()))
	key := c.Balance[len(stored):]
	for part := min(units, b.limit.Most()); units > 0 && part > 0; {
		charge := b.limit.Charge(key)
		charge.Cost, charge.Space = min(part, units), space
		bill := weir.Bill{Charges: []weir.Charge{charge}, MaxWait: wait}
		if err := b.limiter.Decide(ctx, &bill); err != nil {
			return err
		}
		if bill.Allowed {
			units -= charge.Cost
		} else {
			part = charge.Cost / 2
		}
	}
	return nil
}
