package batch

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sums are over all desks. Each call changes them, so they share no cache line with
// what calls only read.
type sums struct {
	_      [64]byte
	asked  atomic.Int64        // seats that wait
	weight atomic.Int64        // of the payloads that wait
	lanes  [lanes]atomic.Int32 // the same, by lane
	_      [64]byte
}

const lanes = 256 // that callers are told apart by

// leave takes out of its lane what waits no longer.
func (s *sums) leave(lane uint8, weight int) { s.lanes[lane].Add(-int32(weight)) }

// desk is where calls come in: one of a few, since at a single one all processors
// would wait for each other. Each processor mostly finds the same desk again, and so
// those who ask the same find their host where they ran.
//
// Lock rule: mu guards all but back and the hosts' prints. It is held for as long as an
// entry takes, or the answer to those who are late, and may be taken under the queue's mu.
type desk[T any] struct {
	queue   *Queue[T]
	mu      sync.Mutex
	turn    uint64     // how often all that waited left at once: a call of an earlier turn was sent
	waiting []*call[T] // in the order of arrival, which is that of deadlines
	weight  int        // of waiting, seats included: what is left for a flight
	room    int        // of waiting, payloads alone: what is left of the queue
	asked   int        // seats of waiting
	closed  bool
	hosts   [hosts]host[T]
	back    atomic.Pointer[group[T]] // calls of this desk, to be told by who comes here
	_       [64]byte                 // desks share no cache line
}

// host is where a call that may have guests is found by its print. Calls whose prints
// fall on one host take turns: who finds another's asks for itself.
type host[T any] struct {
	print atomic.Uint64 // of call: spares most of those who find nothing the lock
	turn  uint64        // of the desk, in which call stands here
	call  *call[T]      // nil if there is none; of another turn it may be anybody's by now
}

const (
	hosts    = 16  // of a desk
	maxSeats = 256 // of a call; who comes after them asks for itself, and may have guests
)

// add counts what comes to the desk, and leaves it. Lock rule: under mu, so that who
// closed the desk counts all that waits.
func (d *desk[T]) add(room, weight, asked int) {
	d.room += room
	d.weight += weight
	d.asked += asked
	d.queue.sums.asked.Add(int64(asked))
	if room != 0 {
		d.queue.sums.weight.Add(int64(room))
	}
}

// enter adds c, whose time begins with it, and reports false if the desk is closed.
func (d *desk[T]) enter(c *call[T]) bool {
	c.desk, c.sent, c.seats = d, false, 1
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	c.turn, c.deadline = d.turn, time.Since(d.queue.began)+d.queue.o.Timeout
	d.waiting = append(d.waiting, c)
	d.add(c.weight, c.weight, 1)
	d.queue.sums.lanes[c.lane].Add(int32(c.weight))
	if c.print != 0 {
		h := &d.hosts[c.print%hosts]
		h.turn, h.call = d.turn, c
		h.print.Store(c.print)
	}
	return true
}

// sit takes a seat in the call that waits under print, if that has half of its time
// left and same says that it asks the same; else c is nil.
func (d *desk[T]) sit(print uint64, same func(T) bool) (c *call[T], seat int) {
	h := &d.hosts[print%hosts]
	now, timeout := time.Since(d.queue.began), d.queue.o.Timeout
	d.mu.Lock()
	defer d.mu.Unlock()
	c = h.call
	if c == nil || h.turn != d.turn || c.print != print || c.seats == maxSeats || 2*(c.deadline-now) < timeout || !same(c.payload) {
		return nil, 0
	}
	if c.guests == nil {
		c.guests = make(chan struct{})
	}
	before := c.weighs()
	seat = c.seats
	c.seats++
	d.add(0, c.weighs()-before, 1)
	return c, seat
}

// stand gives a seat of c up for its caller's context, and says whether others sit in
// c. It returns nil if c has its answer already.
func (d *desk[T]) stand(c *call[T], seat int, cause error) (shared bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shared = c.seats > 1
	switch {
	case c.over.Load():
		return shared, nil
	case c.sent || c.turn != d.turn:
		return shared, errors.Join(cause, ErrUnknown)
	case c.asked() == 1: // the last
		c.over.Store(true)
		i := slices.Index(d.waiting, c)
		d.waiting = slices.Delete(d.waiting, i, i+1)
		d.unhost(c)
		d.queue.sums.leave(c.lane, c.weight)
		d.add(-c.weight, -c.weighs(), -1)
	default:
		before := c.weighs()
		c.gone = append(c.gone, seat)
		d.add(0, c.weighs()-before, -1)
	}
	return shared, cause
}

// cut takes calls off the desk, in their order, that weigh room at most; if none have
// left yet, one at least. Nobody joins them any more. The sender takes them out of
// their lanes.
func (d *desk[T]) cut(g *group[T], room int, none bool) (weight, asked int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.weight <= room { // all, and none of them needs to be touched
		g.calls, d.waiting = d.waiting, g.calls
		weight, asked = d.weight, d.asked
		d.add(-d.room, -weight, -asked)
		d.turn++
		return weight, asked
	}
	n, payloads := 0, 0
	for _, c := range d.waiting {
		w := c.weighs()
		if weight+w > room && !(none && n == 0) {
			break
		}
		c.sent = true
		d.unhost(c)
		weight, asked, payloads, n = weight+w, asked+c.asked(), payloads+c.weight, n+1
		g.calls = append(g.calls, c)
	}
	d.add(-payloads, -weight, -asked)
	d.waiting = slices.Delete(d.waiting, 0, n)
	return weight, asked
}

// late answers who is to be given up by then, and returns the deadline of who comes
// next, or 0. Each call is touched once, and those of a full desk leave in one step.
func (d *desk[T]) late(then time.Duration) (next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, payloads, weight, asked := 0, 0, 0, 0
	for ; n < len(d.waiting) && d.waiting[n].deadline <= then; n++ {
		c := d.waiting[n]
		payloads, weight, asked = payloads+c.weight, weight+c.weighs(), asked+c.asked()
		d.unhost(c)
		d.queue.sums.leave(c.lane, c.weight)
		c.tell(ErrLate)
	}
	d.add(-payloads, -weight, -asked)
	d.waiting = slices.Delete(d.waiting, 0, n)
	if len(d.waiting) > 0 {
		next = d.waiting[0].deadline
	}
	return next
}

// unhost has nobody join c any more, which leaves in the midst of a turn: before that
// ends c may be used anew. Lock rule: under mu.
func (d *desk[T]) unhost(c *call[T]) {
	if h := &d.hosts[c.print%hosts]; h.call == c {
		h.call = nil
	}
}

// close lets nobody in any more.
func (d *desk[T]) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
}
