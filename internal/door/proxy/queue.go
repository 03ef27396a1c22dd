package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
)

// queue bounds how many requests are held back. A place is taken before the
// decision, since a leaky bucket that has charged for a wait cannot take it
// back unseen; requests that find none are decided without waiting.
type queue struct {
	most   int64
	places atomic.Int64
}

// enter takes a place and reports whether there was one.
func (q *queue) enter() bool {
	if q.places.Add(1) > q.most {
		q.places.Add(-1)
		return false
	}
	return true
}

// leave gives the place back, if there was one.
func (q *queue) leave(held bool) {
	if held {
		q.places.Add(-1)
	}
}

// hold waits for d, or returns the error of a context that ends before.
func hold(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refund gives back what was charged to a request that was not passed on. A
// refund that fails leaves its caller a little worse off; nobody is there to be
// told.
func (p *proxy) refund(ctx context.Context, charges []weir.Charge) {
	owed := make([]weir.Charge, 0, len(charges))
	for i := range charges {
		if charges[i].Receipt.ID != 0 {
			c := charges[i]
			c.Cost, c.Peek, c.Trial = 0, false, 0
			owed = append(owed, c)
		}
	}
	if len(owed) > 0 {
		_ = p.Limiter.Refund(context.WithoutCancel(ctx), owed...)
	}
}
