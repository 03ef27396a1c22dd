package batch

import (
	"sync/atomic"
	"time"
)

// call is what one caller asks, or many together. Its desk's mu guards sent, seats,
// gone and guests while it waits; once it has left they change no more.
type call[T any] struct {
	payload  T
	print    uint64 // of what it asks, for those who would join; 0 has no guests
	weight   int    // of the payload
	lane     uint8
	deadline time.Duration // since the queue began
	over     atomic.Bool   // it has its answer, or all gave up before it was sent
	done     chan error    // to the host

	desk *desk[T]
	turn uint64 // of its desk, in which it waits
	sent bool   // in part of a turn

	seats  int           // taken, the host's included
	gone   []int         // seats given up before it was sent
	guests chan struct{} // closed when err is known; nil without guests
	err    error         // for the guests
}

// seatsAWeight is how many seats weigh as much as a payload's unit of weight, so
// that flights are bounded in who asks, too.
const seatsAWeight = 8

// asked returns how many ask c.
func (c *call[T]) asked() int { return c.seats - len(c.gone) }

// weighs returns what c weighs with all who sit in it.
func (c *call[T]) weighs() int { return c.weight + (c.asked()-1)/seatsAWeight }

// tell ends c for all who sit in it, unless it is over. Nobody joins it any more.
func (c *call[T]) tell(err error) {
	if c.over.Swap(true) {
		return
	}
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
