package redisstore

import "time"

// What can be seen of the store from outside, for metrics.

// Flight is how one script call went.
type Flight struct {
	Bills  int
	Queued time.Duration // how long the one that waited longest waited for it
	Took   time.Duration // from sending it to its answer
	Kind   string        // of the failure, as in weir.StoreError; empty if it was answered
}

// observed tells Options.OnFlight of a flight that was sent at began. Its calls
// may be given up at deadline.
func (s *Store) observed(requests []*request, deadline, began time.Time, kind string) {
	if s.options.OnFlight == nil {
		return
	}
	f := Flight{Queued: max(0, began.Sub(deadline.Add(-s.options.Timeout))), Took: time.Since(began), Kind: kind}
	for _, r := range requests {
		f.Bills += len(r.parts) + r.seats - 1
	}
	s.options.OnFlight(f)
}

// ClockOffset returns by how much the server's clock is ahead of ours, and
// whether that is known; of a cluster, of the node that is furthest off. It errs
// by up to the time of one answer.
func (s *Store) ClockOffset() (offset time.Duration, known bool) {
	for i := range s.lines {
		l := s.lines[i].Load()
		if l == nil {
			continue
		}
		if o := time.Duration(l.offset.Load()) * time.Microsecond; o != 0 && (!known || o.Abs() > offset.Abs()) {
			offset, known = o, true
		}
	}
	return offset, known
}
