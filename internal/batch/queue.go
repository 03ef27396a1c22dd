// Package batch gathers what concurrent callers ask into flights, so that many
// bills cost one trip to the store and one script call.
//
//	callers ─▶ Do ─▶ waiting ─▶ sender: takes all that waits, up to a weight ─▶ send
//	                                └── while a flight is out, the next gathers
//
// There is no timer on the way in: a call that finds no flight out leaves at
// once, alone; under load flights fill up by themselves while others are out.
// Waiting a moment to gather more was rejected: it costs latency when idle and
// gains nothing when busy.
//
// Several flights are out at a time so that the server works while answers are
// read here. Those who were answered together ask again together, and a second
// sender would leave with the first of them and let the others stand: so while
// one is out the next leaves with as much as the last carried, or when that one
// is back. Under 512 callers this is half as many checks again.
//
// Every call is answered within the queue's timeout of its arrival, waiting
// included, whatever the store does. One timer per queue watches the oldest
// call; a context with a deadline per call costs a microsecond and four
// allocations. A call that ran out of time while waiting is withdrawn and was
// never sent; one that ran out in flight may still be carried out (ErrUnknown).
//
// Lock rule: mu guards everything; it is never held while sending.
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The ways in which a call ends without its flight's own result.
var (
	ErrFull    = errors.New("the queue is full")
	ErrLate    = errors.New("no time left before it could be sent")
	ErrUnknown = errors.New("no answer in time; it may have been carried out")
	ErrClosed  = errors.New("the queue is closed")
)

// Options configures New. All fields are required.
type Options[T any] struct {
	// Send carries out a flight and returns nil, or an error that holds for all
	// of it. It runs on one of Senders goroutines. It must return soon after
	// deadline, the time at which the first of the calls is given up.
	Send func(flight []T, deadline time.Time) error

	Senders   int           // flights out at a time
	MaxWeight int           // of one flight, at first; a heavier call flies alone
	MaxQueued int           // weight that may wait; over it calls get ErrFull
	Timeout   time.Duration // from arrival to answer
}

// Queue gathers calls. It is safe for concurrent use.
type Queue[T any] struct {
	o     Options[T]
	calls sync.Pool

	mu      sync.Mutex
	ready   sync.Cond // a sender may take a flight, or the queue is closed
	waiting []*call[T]
	weight  int        // of waiting
	lanes   [lanes]int // weight of waiting, by lane
	idle    int        // senders that wait for ready
	out     int        // flights that are out
	last    int        // weight of the flight that left last
	pending ring[T]    // every call not yet answered, oldest first
	timer   *time.Timer
	armed   bool
	closed  bool
	senders sync.WaitGroup
}

type call[T any] struct {
	payload    T
	weight     int
	lane       uint8
	deadline   time.Time
	prev, next *call[T] // in pending; nil once answered
	sent       bool
	done       chan error
}

// lanes is how many lanes callers are told apart by.
const lanes = 256

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

// New starts the senders. Close stops them.
func New[T any](o Options[T]) *Queue[T] {
	q := &Queue[T]{o: o}
	q.ready.L = &q.mu
	q.pending.init()
	q.calls.New = func() any { return &call[T]{done: make(chan error, 1)} }
	q.timer = time.AfterFunc(time.Hour, q.expire)
	q.timer.Stop()
	for range o.Senders {
		q.senders.Go(q.sendLoop)
	}
	return q
}

// Do sends payload in some flight and waits for it. Once half of the queue is
// taken, no lane may hold more than a quarter: a caller, or a key, that floods
// the queue is turned away while others still get in. After Do returns, nothing
// more happens to payload unless the error is ErrUnknown or ctx's.
func (q *Queue[T]) Do(ctx context.Context, payload T, weight int, lane uint8) error {
	c := q.calls.Get().(*call[T])
	c.payload, c.weight, c.lane, c.sent = payload, weight, lane, false
	c.deadline = time.Now().Add(q.o.Timeout)
	if err := q.enter(c); err != nil {
		return err
	}
	var err error
	select {
	case err = <-c.done:
	case <-ctx.Done():
		if err = q.withdraw(c, ctx.Err()); err == nil {
			err = <-c.done // it was answered meanwhile
		}
	}
	if !errors.Is(err, ErrUnknown) && ctx.Err() == nil { // no sender holds c any more
		var none T
		c.payload = none
		q.calls.Put(c)
	}
	return err
}

func (q *Queue[T]) enter(c *call[T]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.weight+c.weight > q.o.MaxQueued && len(q.waiting) > 0:
		return ErrFull
	case 2*q.weight > q.o.MaxQueued && 4*(q.lanes[c.lane]+c.weight) > q.o.MaxQueued:
		return ErrFull
	}
	q.waiting = append(q.waiting, c)
	q.weight += c.weight
	q.lanes[c.lane] += c.weight
	q.pending.push(c)
	if !q.armed {
		q.armed = true
		q.timer.Reset(q.o.Timeout)
	}
	q.wake()
	return nil
}

// fills reports whether what waits is a flight. Lock rule: under mu.
func (q *Queue[T]) fills() bool {
	return len(q.waiting) > 0 && (q.out == 0 || q.closed || q.weight >= min(q.last, q.o.MaxWeight))
}

// wake wakes a sender if there is a flight for it. Lock rule: under mu.
func (q *Queue[T]) wake() {
	if q.idle > 0 && q.fills() {
		q.ready.Signal()
	}
}

// withdraw gives c up for its caller's context. It returns nil if c has its
// answer already.
func (q *Queue[T]) withdraw(c *call[T], cause error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.answered() {
		return nil
	}
	sent := c.sent
	q.drop(c)
	if sent {
		return errors.Join(cause, ErrUnknown)
	}
	return cause
}

// drop takes c out of everything but the flight it may be in.
func (q *Queue[T]) drop(c *call[T]) {
	c.leave()
	if c.sent {
		return
	}
	for i, w := range q.waiting {
		if w == c {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.weight -= c.weight
			q.lanes[c.lane] -= c.weight
			return
		}
	}
}

// answer ends c, once.
func (q *Queue[T]) answer(c *call[T], err error) {
	if !c.answered() {
		q.drop(c)
		c.done <- err
	}
}

// expire answers every call whose time is up and looks again when the next is.
// Calls enter pending and waiting in one order, so those of them that wait are
// the first in waiting, and are cut off it together: after a stall that is all of
// a full queue.
func (q *Queue[T]) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, late := time.Now(), 0
	q.armed = false
	for c := q.pending.oldest(); c != nil; c = q.pending.oldest() {
		if left := c.deadline.Sub(now); left > 0 {
			q.armed = true
			q.timer.Reset(left)
			break
		}
		c.leave()
		if c.sent {
			c.done <- ErrUnknown
			continue
		}
		late++
		q.weight -= c.weight
		q.lanes[c.lane] -= c.weight
		c.done <- ErrLate
	}
	q.waiting = slices.Delete(q.waiting, 0, late)
}

func (q *Queue[T]) sendLoop() {
	var calls []*call[T]
	var flight []T
	for {
		var deadline time.Time
		calls, flight, deadline = q.take(calls[:0], flight[:0])
		if len(calls) == 0 {
			return
		}
		err := q.o.Send(flight, deadline)
		q.mu.Lock()
		q.out--
		for _, c := range calls {
			q.answer(c, err)
		}
		q.mu.Unlock()
		clear(calls)
		clear(flight)
	}
}

// take waits for calls and takes as many as fit one flight; none means closed.
func (q *Queue[T]) take(calls []*call[T], flight []T) ([]*call[T], []T, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.fills() {
		if q.closed {
			return nil, nil, time.Time{}
		}
		q.idle++
		q.ready.Wait()
		q.idle--
	}
	weight := 0
	for _, c := range q.waiting {
		if weight += c.weight; weight > q.o.MaxWeight && len(calls) > 0 {
			weight -= c.weight
			break
		}
		c.sent = true
		q.lanes[c.lane] -= c.weight
		calls = append(calls, c)
		flight = append(flight, c.payload)
	}
	q.waiting = q.waiting[:copy(q.waiting, q.waiting[len(calls):])]
	q.weight -= weight
	q.out++
	q.last = weight
	q.wake()
	return calls, flight, calls[0].deadline
}

// SetMaxWeight changes the weight that flights may have from the next on.
func (q *Queue[T]) SetMaxWeight(w int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.o.MaxWeight = w
}

// Close answers what waits, sends nothing new after it and waits for the
// flights that are out.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.ready.Broadcast()
	q.mu.Unlock()
	q.senders.Wait()
	q.timer.Stop()
}
