package batch

import (
	"math"
	"slices"
	"time"
)

// flight is the calls that one sender has taken, and buffers that it reuses.
type flight[T any] struct {
	groups   []*group[T]
	payloads []T
	seats    []int
	first    time.Duration // deadline of the oldest
	deadline time.Duration // of the oldest that is not given up; guarded by the queue's mu
}

// clear empties f, which keeps nobody's payload alive.
func (f *flight[T]) clear() {
	clear(f.payloads)
	f.groups, f.payloads, f.seats, f.deadline = f.groups[:0], f.payloads[:0], f.seats[:0], forever
}

// group is the calls of a flight that come from one desk. They are told together, on
// the desk's processor if it has anything to do: each has left what it works with in
// the caches there, and what every core wants of another's costs as much as all of its
// work. So a sender tells those of its own desk; the others' stand on their desks
// meanwhile, for whoever comes there next; and those who are left it tells itself.
type group[T any] struct {
	desk  *desk[T]
	calls []*call[T]
	err   error
}

const (
	moment  = time.Millisecond
	forever = time.Duration(math.MaxInt64)
)

func (q *Queue[T]) sendLoop() {
	f := &flight[T]{}
	for q.take(f) {
		left := time.Now()
		err := q.o.Send(f.payloads, f.seats, q.began.Add(f.first))
		q.land(f, time.Since(left))
		q.tell(f.groups, err)
	}
}

// tell gives all of a flight's calls their answer. Without a lock: those who are told
// ask again.
func (q *Queue[T]) tell(groups []*group[T], err error) {
	own := q.desk()
	for i, g := range groups {
		g.err = err
		if g.desk != own && g.desk.back.CompareAndSwap(nil, g) {
			groups[i] = nil
		}
	}
	for i, g := range groups {
		if g != nil {
			q.end(g)
		}
		groups[i] = nil
	}
	for i := range q.desks {
		q.deliver(&q.desks[i])
	}
}

// deliver tells who has come back to d and was not told.
func (q *Queue[T]) deliver(d *desk[T]) {
	if d.back.Load() == nil {
		return
	}
	if g := d.back.Swap(nil); g != nil {
		q.end(g)
	}
}

// end tells a group's calls, of which nothing is known any more then.
func (q *Queue[T]) end(g *group[T]) {
	for _, c := range g.calls {
		c.tell(g.err)
	}
	clear(g.calls)
	g.desk, g.calls, g.err = nil, g.calls[:0], nil
	q.groups.Put(g)
	// Not before all are told, or an idle sender would leave with the first of them.
	if q.out.Add(-1) == 0 {
		q.wake()
	}
}

// fills reports whether what waits is a flight.
func (q *Queue[T]) fills() bool {
	asked := q.sums.asked.Load()
	return asked > 0 && (q.out.Load() == 0 || q.overdue.Load() || q.closed.Load() ||
		asked >= q.last.Load() || q.sums.weight.Load() >= q.maxWeight.Load())
}

// wake wakes a sender if there is a flight for it. Without a lock where there is
// nothing to do: who enters has counted itself in asked before it looks at idle, and
// a sender counts itself in idle before it looks at asked, so one of them sees the
// other.
func (q *Queue[T]) wake() {
	if q.idle.Load() == 0 || !q.fills() && (q.nudging.Load() || q.sums.asked.Load() <= 0) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle.Load() == 0 {
		return
	}
	if q.fills() {
		q.idle.Add(-1)
		q.ready.Signal()
		return
	}
	q.remind()
}

// remind has what waits sent in a while, however little it is. Lock rule: under mu.
func (q *Queue[T]) remind() {
	if q.sums.asked.Load() > 0 && !q.nudging.Swap(true) {
		q.nudge.Reset(2*q.usual + moment)
	}
}

// hurry sends what waits.
func (q *Queue[T]) hurry() {
	q.nudging.Store(false)
	q.overdue.Store(q.sums.asked.Load() > 0)
	q.wake()
}

// take waits for calls and takes as many as fit one flight. It reports false if the
// queue is closed and nothing waits.
func (q *Queue[T]) take(f *flight[T]) bool {
	q.mu.Lock()
	for f.clear(); len(f.groups) == 0; q.load(f) { // none if those who waited gave up
		if !q.await() {
			q.mu.Unlock()
			return false
		}
	}
	q.flights = append(q.flights, f)
	q.mu.Unlock()
	q.wake()
	for _, g := range f.groups {
		for _, c := range g.calls {
			q.sums.leave(c.lane, c.weight)
			f.payloads, f.seats = append(f.payloads, c.payload), append(f.seats, c.asked())
		}
	}
	return true
}

// await waits until what waits is a flight, or the queue is closed: false. Lock rule:
// under mu.
func (q *Queue[T]) await() bool {
	for !q.fills() {
		if q.closed.Load() && q.sums.asked.Load() <= 0 {
			return false
		}
		q.idle.Add(1)
		if q.fills() {
			q.idle.Add(-1)
			break
		}
		q.remind() // of what waits already
		q.ready.Wait()
	}
	if q.overdue.Store(false); q.nudging.Load() && q.nudge.Stop() {
		q.nudging.Store(false) // if it is about to run, it will say so itself
	}
	return true
}

// load takes calls off the desks, none of which is always the last. Who has hardly time
// left for a flight is given up first: past the deadline of its oldest a flight is carried
// out for nobody. Lock rule: under mu.
func (q *Queue[T]) load(f *flight[T]) {
	hardly := time.Since(q.began) + min(q.usual, q.o.Timeout/8)
	room, asked := int(q.maxWeight.Load()), 0
	for i := range q.desks {
		d := &q.desks[(q.first+i)%len(q.desks)]
		d.late(hardly)
		g := q.groups.Get().(*group[T])
		weight, seats := d.cut(g, room, len(f.groups) == 0)
		if len(g.calls) == 0 {
			q.groups.Put(g)
			continue
		}
		g.desk = d
		room, asked = room-weight, asked+seats
		f.deadline = min(f.deadline, g.calls[0].deadline)
		f.groups = append(f.groups, g)
	}
	f.first = f.deadline
	q.first++
	q.out.Add(int32(len(f.groups)))
	q.last.Store(int64(asked))
}

// land takes note that f is back.
func (q *Queue[T]) land(f *flight[T], took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usual += (took - q.usual) / 8
	q.flights = slices.DeleteFunc(q.flights, func(other *flight[T]) bool { return other == f })
}
