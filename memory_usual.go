package weir

import (
	"time"

	"github.com/weirhq/weir/algo"
)

// takeUsual decides a charge of cost on key without a bill, and answers as a
// bill of this one charge would be answered. It reports false, and nothing
// happened, where the charge is not the usual one (see algo.Owed) or the input
// is bad: then a bill is the way.
//
// The clock is read first: the processor hashes and divides while it waits for
// the reading.
func (m *Memory) takeUsual(d *Decision, key string, cost int64, l *Limit) bool {
	n, period, capacity := l.n, l.period, l.capacity()
	if key == "" || cost <= 0 || !l.sound || l.unlimited || l.kind != algo.TokenBucket || n == 0 || cost > capacity {
		return false
	}
	var now int64
	if m.instead == nil {
		now = m.wall()
	} else {
		now = m.instead()
	}
	print := m.print(key, "", l)
	us, part := algo.Regained(cost, n, period)

	s := m.shard(print)
	if !s.mu.TryLock() {
		s.lock()
	}
	at := s.find(print)
	full, phase := now, int64(0)
	if at >= 0 {
		full, phase = s.slots[at].w.usual(now, n, capacity)
	}
	if full < now || len(s.blocks) > 0 {
		s.mu.Unlock()
		return false
	}
	owed := algo.Owes(full, phase, now, n)
	fits := owed.Within(capacity-cost, period)
	if fits {
		full += us
		if phase += part; phase >= n {
			phase -= n
			full++
		}
		s.place(at, print, now).putUsual(full, phase, now, n, capacity)
	}
	s.mu.Unlock()
	// What is written before the unlock has arrived by the time it is read: the
	// caller's copy of the decision does not wait for it.
	d.Source, d.Limit = "memory", capacity
	d.Remaining = capacity - owed.Units(period)
	d.ResetAfter = time.Duration(algo.FirstAfter(full, phase, n)-now) * time.Microsecond
	if fits {
		d.Allowed = true
		d.Remaining -= cost
		return true
	}
	d.Remaining = max(d.Remaining, 0) // what was admitted ahead is owed beyond the capacity
	all, rest := algo.Regained(capacity, n, period)
	d.Reason = Limited
	d.RetryAfter = time.Duration(algo.FirstAfter(full+us-all, phase+part-rest, n)-now) * time.Microsecond
	return true
}
