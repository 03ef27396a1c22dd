package redisstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Lend debits up to units on c's balance for the caller to spend by itself, and
// returns how many, for how long and how the balance stood after them: 0 if less
// than two fit, or if the loans out on the balance, over all instances, would
// come to more than most. c.Receipt is then what Return wants back. It is what
// package layer/lease needs of a store.
func (s *Store) Lend(ctx context.Context, c *weir.Charge, units, most int64, life time.Duration) (granted int64, until time.Duration, v algo.View, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	q := c.Limit.Quota()
	r := weir.Receipt{ID: rand.Uint64() | 1}
	in, err := s.askTwice(ctx, c, func() []string {
		return []string{"lend", receiptID(&r), formatInt(units), formatInt(most), formatInt(life.Microseconds()), s.encodeQuota(c, q, 1)}
	})
	if err != nil {
		return 0, 0, v, err
	}
	if granted = in.int(); granted == 0 {
		return 0, 0, v, in.err
	}
	until = time.Duration(in.int()) * time.Microsecond
	v.At, v.Forget = in.int(), 1<<63-1
	if q.Kind.Bucket() {
		v.Full, v.Phase = in.int(), in.int()
		r.Due, r.Phase = v.Full, v.Phase
	} else {
		v.Start, v.End, v.Prev, v.Cur = in.int(), in.int(), in.int(), in.int()
		r.Due = v.Start
	}
	r.Cost, r.At, v.Now = granted, v.At, v.At
	c.Receipt = r
	return granted, until, v, in.err
}

// Return ends a loan and gives back the units of it that were not spent.
func (s *Store) Return(ctx context.Context, c *weir.Charge, units int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	r := &c.Receipt
	_, err := s.askTwice(ctx, c, func() []string {
		return []string{"return", receiptID(r), formatInt(r.At), formatInt(r.Due), formatInt(r.Phase),
			formatInt(units), s.encodeQuota(c, c.Limit.Quota(), units)}
	})
	return err
}
