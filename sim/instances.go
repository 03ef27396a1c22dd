package sim

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/layer/denycache"
	"github.com/weirhq/weir/layer/lease"
)

// hot is a key that four instances are asked about all the time.
var hot = then(
	evenly(2*second, 5*second, 500*time.Microsecond, instanceCount),
	evenly(35*second, 38*second, 500*time.Microsecond, instanceCount))

const (
	instanceCount = 4
	overshoot     = 100_000 // what the instances may borrow: 10 %, in millionths
)

// several is instances that share a store without and with leases, behind a deny
// cache as in production, and instances that share nothing.
func several(ctx context.Context, p *Preset, limit weir.Limit) ([]Row, error) {
	var rows []Row
	for _, way := range []string{"shared, no leases", "shared, leases of 10 %", "nothing shared"} {
		clock := NewClock(limit.Period())
		now := clock.since(clock.Now())
		shared := &lender{Store: memory(clock), clock: clock, loans: map[uint64]loan{}}
		row, err := p.each(ctx, clock, limit, instanceCount, func() weir.Store {
			switch way {
			case "nothing shared":
				return memory(clock)
			case "shared, no leases":
				return denycache.New(shared, denycache.Options{Now: now})
			}
			leases := stepped{lease.New(shared, lease.Options{Overshoot: overshoot, Now: now, Stepped: true})}
			return denycache.New(leases, denycache.Options{Now: now})
		}, way)
		if err != nil {
			return nil, err
		}
		row.Asked = shared.asked
		rows = append(rows, row)
	}
	return rows, nil
}

// stepped lets the lender of leases work before every decision, as it would in
// the time between two.
type stepped struct{ *lease.Leases }

// Answer implements denycache.Near.
func (s stepped) Answer(b *weir.Bill) bool {
	s.Step()
	return s.Leases.Answer(b)
}

// Apply implements weir.Store.
func (s stepped) Apply(ctx context.Context, bills []*weir.Bill) {
	s.Step()
	s.Leases.Apply(ctx, bills)
}

// lender lends from memory as the Redis store does: it debits first, and bounds
// what is out. It lends of buckets alone: no loan of one outlives a window.
type lender struct {
	weir.Store
	clock *Clock
	loans map[uint64]loan // by receipt
	asked int             // trips to it
}

// Apply implements weir.Store.
func (l *lender) Apply(ctx context.Context, bills []*weir.Bill) {
	l.asked += len(bills)
	l.Store.Apply(ctx, bills)
}

type loan struct {
	units int64
	until int64
}

// Lend implements lease.Lender.
func (l *lender) Lend(ctx context.Context, c *weir.Charge, units, most int64, life time.Duration) (int64, time.Duration, algo.View, error) {
	l.asked++
	now := l.clock.Now()
	room := most
	for id, loan := range l.loans {
		if loan.until <= now {
			delete(l.loans, id)
			continue
		}
		room -= loan.units
	}
	balance := weir.Bill{Charges: []weir.Charge{{Key: c.Key, Limit: c.Limit, Space: c.Space, Peek: true}}}
	if err := l.apply(ctx, &balance); err != nil {
		return 0, 0, algo.View{}, err
	}
	if units = min(units, room, balance.Remaining); units < 1 {
		return 0, 0, algo.View{}, nil
	}
	c.Cost = units
	debit := weir.Bill{Charges: []weir.Charge{*c}}
	if err := l.apply(ctx, &debit); err != nil || !debit.Allowed {
		return 0, 0, algo.View{}, err
	}
	c.Receipt = debit.Charges[0].Receipt
	l.loans[c.Receipt.ID] = loan{units, now + life.Microseconds()}
	return units, life, debit.Balances()[0].View, nil
}

// Return implements lease.Lender.
func (l *lender) Return(ctx context.Context, c *weir.Charge, units int64) error {
	l.asked++
	delete(l.loans, c.Receipt.ID)
	if units == 0 {
		return nil
	}
	refund := weir.Bill{Verb: algo.Refund, Charges: []weir.Charge{*c}}
	refund.Charges[0].Cost = units
	return l.apply(ctx, &refund)
}

func (l *lender) apply(ctx context.Context, b *weir.Bill) error {
	if err := b.Check(); err != nil {
		return err
	}
	l.Store.Apply(ctx, []*weir.Bill{b})
	return b.Err
}
