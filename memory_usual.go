package weir

import (
	"time"

	"github.com/weirhq/weir/algo"
)

// takeUsual decides the charge of n on key without a bill, and answers as a
// bill of this one charge would be answered. It reports false, and nothing
// happened, where the charge is not the usual one (see algo.Usual) or the input
// is bad: then a bill is the way.
func (m *Memory) takeUsual(d *Decision, key string, l *Limit, n int64) bool {
	if key == "" || !l.sound || l.unlimited || n <= 0 || l.kind != algo.TokenBucket {
		return false
	}
	var charge algo.Usual
	capacity := l.capacity()
	if !charge.Prepare(l.n, l.period, capacity, n) {
		return false
	}
	print := m.print(key, "", l)
	now := m.now()
	s := m.shard(print)
	s.mu.Lock()
	at := s.find(print)
	var state algo.Bucket
	if at >= 0 {
		s.slots[at].w.getBucket(&state)
	}
	fits, usual := charge.Take(&state, now)
	if len(s.blocks) > 0 {
		usual = false
	}
	if usual && fits {
		s.place(at, print, now).putBucket(&state)
	}
	s.mu.Unlock()
	if !usual {
		return false
	}
	r := charge.Report()
	d.Allowed, d.Source, d.Limit, d.Remaining = fits, "memory", capacity, r.Remaining
	d.RetryAfter = time.Duration(r.RetryAfter) * time.Microsecond
	d.ResetAfter = time.Duration(r.ResetAfter) * time.Microsecond
	if !fits {
		d.Reason = Limited
	}
	return true
}
