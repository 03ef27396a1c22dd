package weir

import (
	"context"
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
func (m *Memory) takeUsual(ctx context.Context, d *Decision, key string, cost int64, limits []Limit) bool {
	if len(limits) != 1 || key == "" || cost <= 0 || ctx.Err() != nil {
		return false
	}
	l := &limits[0]
	n, period, capacity := l.n, l.period, l.capacity()
	if !l.sound || l.unlimited || l.kind != algo.TokenBucket || n == 0 || cost > capacity {
		return false
	}
	now := m.now()
	print := m.print(key, "", l)
	us, part := algo.Regained(cost, n, period)

	s := m.shard(print)
	s.lock()
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
