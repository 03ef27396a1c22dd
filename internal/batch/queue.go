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
// is back. Under 512 callers this is half as many checks again. A flight that does
// not come back holds nobody up: what waits leaves when twice a flight's usual time
// is over.
//
// Those who ask the same while one such call waits may join it: they sit in the call
// of the first, its host, and take none of the queue's room. So a key that everybody
// asks about is one payload in a flight, and its callers cost a seat each. The
// sender is told how many seats a payload has, and each caller which one was its.
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
	// of it. seats says of each payload how many ask it. Send runs on one of Senders
	// goroutines. It must return soon after deadline, the time at which the first of
	// the calls is given up.
	Send func(flight []T, seats []int, deadline time.Time) error

	Senders   int           // flights out at a time
	MaxWeight int           // of one flight, at first; a heavier call flies alone
	MaxQueued int           // weight that may wait; over it calls get ErrFull
	Timeout   time.Duration // from arrival to answer
}

// Queue gathers calls. It is safe for concurrent use.
type Queue[T any] struct {
	o     Options[T]
	calls sync.Pool

	began time.Time // deadlines count from it: one clock is read and not two

	mu      sync.Mutex
	ready   sync.Cond // a sender may take a flight, or the queue is closed
	waiting []*call[T]
	weight  int           // of waiting
	lanes   [lanes]int    // weight of waiting, by lane
	asked   int           // seats of waiting
	idle    int           // senders that wait for ready
	out     int           // flights that are out
	last    int           // seats of the flight that left last
	usual   time.Duration // that a flight takes
	nudge   *time.Timer   // ends the wait for as much as the last carried
	nudging bool          // it runs
	overdue bool          // it has
	hosts   [hosts]host[T]
	pending ring[T] // every call not yet answered, oldest first
	timer   *time.Timer
	armed   bool
	closed  bool
	senders sync.WaitGroup
}

const (
	lanes  = 256 // that callers are told apart by
	moment = time.Millisecond
)

// New starts the senders. Close stops them.
func New[T any](o Options[T]) *Queue[T] {
	q := &Queue[T]{o: o, began: time.Now()}
	q.ready.L = &q.mu
	q.pending.init()
	q.calls.New = func() any { return &call[T]{done: make(chan error, 1)} }
	q.timer = time.AfterFunc(time.Hour, q.expire)
	q.timer.Stop()
	q.nudge = time.AfterFunc(time.Hour, q.hurry)
	q.nudge.Stop()
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
	_, err := q.Host(ctx, payload, weight, lane, 0)
	return err
}

// Host is Do for a payload that others may Join by print until it leaves. The host's
// place among those who ask it is 0. Of a shared payload others may know after Host
// has returned.
func (q *Queue[T]) Host(ctx context.Context, payload T, weight int, lane uint8, print uint64) (shared bool, err error) {
	c := q.calls.Get().(*call[T])
	c.payload, c.print, c.weight, c.lane, c.sent, c.seats = payload, print, weight, lane, false, 1
	c.deadline = time.Since(q.began) + q.o.Timeout
	if err := q.enter(c); err != nil {
		return false, err
	}
	select {
	case err = <-c.done:
		shared = c.seats > 1
	case <-ctx.Done():
		if shared, err = q.withdraw(c, 0, ctx.Err()); err == nil {
			err = <-c.done // it was answered meanwhile
		}
	}
	if !shared && !errors.Is(err, ErrUnknown) && ctx.Err() == nil { // nobody else holds c any more
		var none T
		c.payload = none
		q.calls.Put(c)
	}
	return shared, err
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
	q.asked++
	q.weight += c.weight
	q.lanes[c.lane] += c.weight
	q.pending.push(c)
	if c.print != 0 {
		q.hosts[c.print%hosts].open(c)
	}
	if !q.armed {
		q.armed = true
		q.timer.Reset(q.o.Timeout)
	}
	q.wake()
	return nil
}

// fills reports whether what waits is a flight. Lock rule: under mu.
func (q *Queue[T]) fills() bool {
	return len(q.waiting) > 0 && (q.out == 0 || q.closed || q.overdue || q.asked >= q.last || q.weight >= q.o.MaxWeight)
}

// wake wakes a sender if there is a flight for it. Lock rule: under mu.
func (q *Queue[T]) wake() {
	switch {
	case q.idle == 0:
	case q.fills():
		q.ready.Signal()
	case len(q.waiting) > 0 && !q.nudging:
		q.nudging = true
		q.nudge.Reset(2*q.usual + moment)
	}
}

// hurry sends what waits, however little it is.
func (q *Queue[T]) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nudging, q.overdue = false, len(q.waiting) > 0
	q.wake()
}

// withdraw gives a seat of c up for its caller's context, and says whether others
// sit in c. It returns nil if c has its answer already.
func (q *Queue[T]) withdraw(c *call[T], seat int, cause error) (shared bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	shared = c.seats > 1
	switch {
	case c.answered():
		return shared, nil
	case c.sent:
		if !shared {
			q.drop(c)
		}
		return shared, errors.Join(cause, ErrUnknown)
	case c.seats-len(c.gone) == 1: // the last
		q.drop(c)
	default:
		c.gone = append(c.gone, seat)
		q.asked--
	}
	return shared, cause
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
			q.forget(c)
			return
		}
	}
}

// forget takes c, which waits no longer, out of the sums.
func (q *Queue[T]) forget(c *call[T]) {
	q.asked -= c.seats - len(c.gone)
	q.weight -= c.weight
	q.lanes[c.lane] -= c.weight
}

// expire answers every call whose time is up and looks again when the next is.
// Calls enter pending and waiting in one order, so those of them that wait are
// the first in waiting, and are cut off it together: after a stall that is all of
// a full queue.
func (q *Queue[T]) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, late := time.Since(q.began), 0
	q.armed = false
	for c := q.pending.oldest(); c != nil; c = q.pending.oldest() {
		if left := c.deadline - now; left > 0 {
			q.armed = true
			q.timer.Reset(left)
			break
		}
		c.leave()
		if c.sent {
			c.tell(ErrUnknown)
			continue
		}
		late++
		q.forget(c)
		c.tell(ErrLate)
	}
	q.waiting = slices.Delete(q.waiting, 0, late)
}

func (q *Queue[T]) sendLoop() {
	var calls []*call[T]
	var flight []T
	var seats []int
	for back := 0; ; back = 1 {
		calls, flight, seats = q.take(back, calls[:0], flight[:0], seats[:0])
		if len(calls) == 0 {
			return
		}
		left := time.Now()
		err := q.o.Send(flight, seats, q.began.Add(calls[0].deadline))
		took := time.Since(left)
		q.mu.Lock()
		q.usual += (took - q.usual) / 8
		for i, c := range calls {
			if c.answered() { // or given up
				calls[i] = nil
			} else {
				c.leave()
			}
		}
		q.mu.Unlock()
		// Without the lock: those who are told ask again, and would wait for it.
		for _, c := range calls {
			if c != nil {
				c.tell(err)
			}
		}
		clear(calls)
		clear(flight)
	}
}

// take waits for calls and takes as many as fit one flight; none means closed. back
// is how many flights its sender has brought back: not before all are told, or an idle
// sender would leave with the first of them.
func (q *Queue[T]) take(back int, calls []*call[T], flight []T, seats []int) ([]*call[T], []T, []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.out -= back
	for !q.fills() {
		if q.closed {
			return nil, nil, nil
		}
		q.idle++
		q.wake() // for what waits already
		q.ready.Wait()
		q.idle--
	}
	if q.overdue = false; q.nudging {
		q.nudging = !q.nudge.Stop() // if it is about to run, it will say so itself
	}
	weight, asked := 0, 0
	for _, c := range q.waiting {
		n := c.seats - len(c.gone)
		if weight += c.weight + (n-1)/seatsAWeight; weight > q.o.MaxWeight && len(calls) > 0 {
			break
		}
		c.sent = true
		asked += n
		q.forget(c)
		calls, flight, seats = append(calls, c), append(flight, c.payload), append(seats, n)
	}
	q.waiting = q.waiting[:copy(q.waiting, q.waiting[len(calls):])]
	q.out++
	q.last = asked
	q.wake()
	return calls, flight, seats
}

// SetMaxWeight changes the weight that flights may have from the next on.
func (q *Queue[T]) SetMaxWeight(w int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.o.MaxWeight = w
	q.wake()
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
	q.nudge.Stop()
}
