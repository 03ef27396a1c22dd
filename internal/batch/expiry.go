package batch

import "time"

// arm starts the timer, unless it runs.
func (q *Queue[T]) arm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.armed.Swap(true) {
		q.timer.Reset(q.o.Timeout)
	}
}

// expire answers every call whose time is up and looks again when the next is. Who
// comes in meanwhile is either found, or finds the timer stopped and starts it.
func (q *Queue[T]) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed.Store(false)
	now, next := time.Since(q.began), forever
	for i := range q.desks {
		if first := q.desks[i].late(now); first > 0 {
			next = min(next, first)
		}
	}
	for _, f := range q.flights {
		if f.deadline <= now {
			f.giveUp(now)
		}
		next = min(next, f.deadline)
	}
	if next < forever {
		q.armed.Store(true)
		q.timer.Reset(next - now)
	}
}

// giveUp answers the calls whose time is up, and finds when the next is. Lock rule:
// under the queue's mu, while f is out.
func (f *flight[T]) giveUp(now time.Duration) {
	f.deadline = forever
	for _, g := range f.groups {
		for _, c := range g.calls {
			switch {
			case c.over.Load():
			case c.deadline <= now:
				c.tell(ErrUnknown)
			default:
				f.deadline = min(f.deadline, c.deadline)
			}
		}
	}
}
