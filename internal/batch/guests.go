package batch

import (
	"context"
	"sync/atomic"
	"time"
)

// host is where a call that may have guests is found by its print. Calls whose
// prints fall on one host take turns: who finds another's asks for itself.
type host[T any] struct {
	print atomic.Uint64 // of call, or 0: spares most of those who find nothing the lock
	call  *call[T]
}

const (
	hosts    = 64
	maxSeats = 256 // of a call; who comes after them asks for itself, and may have guests

	// seatsAWeight is how many seats weigh as much as a payload's unit of weight, so
	// that flights are bounded in who asks, too.
	seatsAWeight = 8
)

// open has c found by its print. Lock rule: under the queue's mu.
func (h *host[T]) open(c *call[T]) {
	h.call = c
	h.print.Store(c.print)
}

// Join waits with a call that asks the same, and returns its payload and the
// caller's place among those who asked it. It reports false, at once, if there is
// none: no such call waits, or not long enough any more.
func (q *Queue[T]) Join(ctx context.Context, print uint64, same func(T) bool) (payload T, place int, joined bool, err error) {
	h := &q.hosts[print%hosts]
	if print == 0 || h.print.Load() != print {
		return payload, 0, false, nil
	}
	now := time.Since(q.began)
	q.mu.Lock()
	c := h.call
	if c.answered() || c.sent || c.print != print || c.seats == maxSeats || 2*(c.deadline-now) < q.o.Timeout || !same(c.payload) {
		q.mu.Unlock()
		return payload, 0, false, nil
	}
	seat := c.seats
	c.seats++
	q.asked++
	if c.guests == nil {
		c.guests = make(chan struct{})
	}
	q.wake()
	q.mu.Unlock()
	select {
	case <-c.guests:
		err = c.err
	case <-ctx.Done():
		if _, err = q.withdraw(c, seat, ctx.Err()); err != nil {
			return payload, 0, true, err // others may still be leaving it
		}
		<-c.guests // it was answered meanwhile
		err = c.err
	}
	return c.payload, c.place(seat), true, err
}
