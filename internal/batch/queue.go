// Package batch gathers what concurrent callers ask into flights, so that many
// bills cost one trip to the store and one script call.
//
//	callers ─▶ Do ─▶ a desk ─▶ sender: takes all that waits, up to a weight ─▶ send
//	                             └── while a flight is out, the next gathers
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
// asks about is one payload in a flight for each desk, and its callers weigh there what
// a seat weighs. The sender is told how many seats a payload has, and each caller which one
// was its.
//
// Calls of one desk leave in the order of arrival. Between desks there is no order:
// those who wait at two of them ask at the same time.
//
// Every call is answered within the queue's timeout of its arrival, waiting
// included, whatever the store does. One timer per queue watches the oldest
// call; a context with a deadline per call costs a microsecond and four
// allocations. A call that ran out of time while waiting is withdrawn and was
// never sent; one that ran out in flight may still be carried out (ErrUnknown).
//
// Where what is said of it stands: call.go, who asks; desk.go, where they wait;
// flights.go, how they leave and come back; expiry.go, how they are given up.
package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	// goroutines, and holds its calls for as long as it takes: those of which the time
	// is up are told that the outcome is unknown. deadline is when the first of them is.
	Send func(flight []T, seats []int, deadline time.Time) error

	Desks     int           // that callers are spread over; about as many as processors
	Senders   int           // flights out at a time
	MaxWeight int           // of one flight, at first; a heavier call flies alone
	MaxQueued int           // weight of payloads that may wait; over it calls get ErrFull
	Timeout   time.Duration // from arrival to answer
}

// Queue gathers calls. It is safe for concurrent use.
//
// Lock rule: mu guards what moves with a flight, and not with a call. Desks have locks
// of their own, which may be taken under it. Neither is held while sending, nor while
// telling any but those whose time is up.
type Queue[T any] struct {
	o      Options[T]
	began  time.Time // deadlines count from it: one clock is read and not two
	calls  sync.Pool
	desks  []desk[T]
	near   sync.Pool     // of *desk: each processor finds its own again
	lent   atomic.Uint32 // desks, to processors, ever
	groups sync.Pool

	sums sums

	maxWeight atomic.Int64
	idle      atomic.Int32 // senders that wait for ready and were not told
	out       atomic.Int32 // groups of flights that are out
	last      atomic.Int64 // seats of the flight that left last
	overdue   atomic.Bool  // what waits is to leave, however little it is
	closed    atomic.Bool
	nudging   atomic.Bool // nudge runs
	armed     atomic.Bool // timer runs

	mu      sync.Mutex
	ready   sync.Cond     // a sender may take a flight, or the queue is closed
	first   int           // desk that the next flight looks at first
	usual   time.Duration // that a flight takes
	nudge   *time.Timer   // ends the wait for as much as the last carried
	flights []*flight[T]  // that are out
	timer   *time.Timer   // of the oldest call
	senders sync.WaitGroup
}

// New starts the senders. Close stops them.
func New[T any](o Options[T]) *Queue[T] {
	q := &Queue[T]{o: o, began: time.Now(), desks: make([]desk[T], o.Desks)}
	for i := range q.desks {
		q.desks[i].queue = q
	}
	q.maxWeight.Store(int64(o.MaxWeight))
	q.ready.L = &q.mu
	q.calls.New = func() any { return &call[T]{done: make(chan error, 1)} }
	q.groups.New = func() any { return &group[T]{} }
	q.near.New = func() any { return &q.desks[q.lent.Add(1)%uint32(len(q.desks))] }
	q.timer = time.AfterFunc(time.Hour, q.expire)
	q.timer.Stop()
	q.nudge = time.AfterFunc(time.Hour, q.hurry)
	q.nudge.Stop()
	for range o.Senders {
		q.senders.Go(q.sendLoop)
	}
	return q
}

// desk returns the one that is near.
func (q *Queue[T]) desk() *desk[T] {
	if len(q.desks) == 1 {
		return &q.desks[0]
	}
	d := q.near.Get()
	q.near.Put(d)
	return d.(*desk[T])
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
	c.payload, c.print, c.weight, c.lane = payload, print, weight, lane
	c.over.Store(false)
	if err := q.enter(c); err != nil {
		q.free(c)
		return false, err
	}
	select {
	case err = <-c.done:
		shared = c.seats > 1
	case <-ctx.Done():
		if shared, err = c.desk.stand(c, 0, ctx.Err()); err == nil {
			err = <-c.done // it was answered meanwhile
		}
	}
	if !shared && !errors.Is(err, ErrUnknown) && ctx.Err() == nil { // nobody else holds c any more
		q.free(c)
	}
	return shared, err
}

// free keeps a call, which nobody holds any more, for another use.
func (q *Queue[T]) free(c *call[T]) {
	var none T
	c.payload = none
	q.calls.Put(c)
}

// Join waits with a call that asks the same, and returns its payload and the
// caller's place among those who asked it. It reports false, at once, if there is
// none: no such call waits nearby, or it will be given up before half of the
// caller's time is over.
func (q *Queue[T]) Join(ctx context.Context, print uint64, same func(T) bool) (payload T, place int, joined bool, err error) {
	if print == 0 {
		return payload, 0, false, nil
	}
	d := q.desk()
	if d.hosts[print%hosts].print.Load() != print {
		return payload, 0, false, nil
	}
	q.deliver(d)
	c, seat := d.sit(print, same)
	if c == nil {
		return payload, 0, false, nil
	}
	q.wake()
	select {
	case <-c.guests:
		err = c.err
	case <-ctx.Done():
		if _, err = d.stand(c, seat, ctx.Err()); err != nil {
			return payload, 0, true, err // others may still be leaving it
		}
		<-c.guests // it was answered meanwhile
		err = c.err
	}
	return c.payload, c.place(seat), true, err
}

// enter finds room for c and puts it on a desk.
func (q *Queue[T]) enter(c *call[T]) error {
	most, waits := int64(q.o.MaxQueued), q.sums.weight.Load()
	switch weight := int64(c.weight); {
	case waits+weight > most && waits > 0:
		return ErrFull
	case 2*waits > most && 4*(int64(q.sums.lanes[c.lane].Load())+weight) > most:
		return ErrFull
	}
	d := q.desk()
	q.deliver(d)
	if !d.enter(c) {
		return ErrClosed
	}
	if !q.armed.Load() {
		q.arm()
	}
	q.wake()
	return nil
}

// SetMaxWeight changes the weight that flights may have from the next on.
func (q *Queue[T]) SetMaxWeight(w int) {
	q.maxWeight.Store(int64(w))
	q.wake()
}

// Close answers what waits, sends nothing new after it and waits for the
// flights that are out.
func (q *Queue[T]) Close() {
	for i := range q.desks {
		q.desks[i].close()
	}
	q.closed.Store(true) // after it nobody comes in any more
	q.mu.Lock()
	q.idle.Store(0)
	q.ready.Broadcast()
	q.mu.Unlock()
	q.senders.Wait()
	q.timer.Stop()
	q.nudge.Stop()
}
