package proxy

import "sync/atomic"

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
