package batch

import "time"

// call is what one caller asks, or many together. Its queue's mu guards prev, next and
// sent, and of its guests all but err, which is written once nobody joins any more.
type call[T any] struct {
	payload    T
	print      uint64 // of what it asks, for those who would join; 0 has no guests
	weight     int
	lane       uint8
	deadline   time.Duration // since the queue began
	prev, next *call[T]      // in pending; nil once answered
	sent       bool
	done       chan error // to the host

	seats  int           // taken, the host's included
	gone   []int         // seats given up before it was sent
	guests chan struct{} // closed when err is known; nil without guests
	err    error         // for the guests
}

// tell ends c for all who sit in it, once it has left pending. Nobody joins it any
// more, so it needs no lock.
func (c *call[T]) tell(err error) {
	if c.guests != nil {
		c.err = err
		close(c.guests)
	}
	c.done <- err // the host may use c anew from here
}

// place returns which of those who ask c the seat is, the ones that gave up left
// out. It changes no more once c was sent.
func (c *call[T]) place(seat int) int {
	place := seat
	for _, other := range c.gone {
		if other < seat {
			place--
		}
	}
	return place
}

// ring is a doubly linked list through the calls themselves, so that entering
// it allocates nothing. The zero ring is empty after init.
type ring[T any] struct{ root call[T] }

func (r *ring[T]) init() { r.root.prev, r.root.next = &r.root, &r.root }

func (r *ring[T]) oldest() *call[T] {
	if r.root.next == &r.root {
		return nil
	}
	return r.root.next
}

func (r *ring[T]) push(c *call[T]) {
	c.prev, c.next = r.root.prev, &r.root
	c.prev.next, r.root.prev = c, c
}

func (c *call[T]) leave() {
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
}

func (c *call[T]) answered() bool { return c.next == nil }
