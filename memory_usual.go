package weir

import (
	"hash/maphash"
	"time"
	"unsafe"

	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/prefetch"
)

// takeUsual decides a charge of cost on key without a bill, and answers as a
// bill of this one charge would be answered. It reports false, and nothing
// happened, where the charge is not the usual one (see algo.Owed) or the input
// is bad: then a bill is the way.
//
// The balance comes near while the clock is read, and the processor hashes and
// divides while it waits for the reading.
func (m *Memory) takeUsual(d *Decision, key string, cost int64, l *Limit) bool {
	if !l.usual(key, cost) {
		return false
	}
	print := printOf(l.tag, maphash.String(m.seed, key))
	m.near(print)
	return m.takeAt(d, m.now(), print, cost, l)
}

// near has the balance of print brought near. One that is not in a cache costs more
// than all else in its decision, and behind the lock nothing is read ahead. Here
// nothing waits for anything. Tables that are small are in a cache, and may be one hot
// key's: to look at a slot that another core is writing costs that core a twentieth of
// a decision.
func (m *Memory) near(print uint64) {
	if slots := m.table(print).slots.Load(); slots != nil && len(*slots) >= nearFrom {
		prefetch.Read(address(*slots, print))
	}
}

// nearFrom is the size of the smallest table that is brought near: with 512 shards,
// those of a megabyte in all.
const nearFrom = 64

// address is where the search for print begins.
func address(slots []slot, print uint64) uintptr {
	return uintptr(unsafe.Pointer(&slots[print&uint64(len(slots)-1)]))
}

// fetch has the balances of bills of one balance brought near, all at the same time,
// and notes which they are. Those of a batch come to be written: the locks, taken one
// after another, would each cost a trip to the core that had it last. A bill by itself
// is often on a hot key, whose line others are using.
func (m *Memory) fetch(bills []*Bill) {
	space, hash := "", uint64(0) // that of the last bill: those of one call mostly have the same
	for _, b := range bills {
		var c *Charge
		switch {
		case b.brief:
			c = &b.Charges[0]
		case len(b.balances) == 1:
			c = b.balances[0].Charge
		default:
			continue
		}
		if c.Space != space {
			space, hash = c.Space, m.space(c.Space)
		}
		b.print = printOf(c.Limit.tag^hash, maphash.String(m.seed, c.Key))
		if len(bills) == 1 {
			m.near(b.print)
			return
		}
		if slots := m.table(b.print).slots.Load(); slots != nil {
			prefetch.Write(address(*slots, b.print))
		}
	}
}

// takeBrief is takeUsual for a bill that short readied.
func (m *Memory) takeBrief(b *Bill, now int64) bool {
	c, d := &b.Charges[0], &b.Each[0]
	if !m.takeAt(d, now, b.print, c.Cost, &c.Limit) {
		return false
	}
	b.Decision = *d
	return true
}

// usual reports whether cost on key may be decided without a bill, if its balance
// is the usual one too.
func (l *Limit) usual(key string, cost int64) bool {
	return key != "" && cost > 0 && l.sound && !l.unlimited && l.kind == algo.TokenBucket && l.n != 0 && cost <= l.capacity()
}

// takeAt takes a usual cost at now from the balance of print.
func (m *Memory) takeAt(d *Decision, now int64, print uint64, cost int64, l *Limit) bool {
	n, period, capacity := l.n, l.period, l.capacity()
	us, part := algo.Regained(cost, n, period)
	e, s := m.table(print).hold(print, now), (*shard)(nil)
	if e == nil {
		if s = m.shard(print); !s.usual(print, now, &e) {
			return false
		}
	}
	full, phase := now, int64(0)
	if e != nil {
		if full, phase = e.w.usual(now, n, capacity); full < now {
			e.free(print)
			s.unlock()
			return false
		}
	}
	owed := algo.Owes(full, phase, now, n)
	fits := owed.Within(capacity-cost, period)
	if fits {
		full += us
		if phase += part; phase >= n {
			phase -= n
			full++
		}
		if e == nil {
			e = &s.slots[s.insert(print, now)]
		}
		e.w.putUsual(full, phase, now, n, capacity)
	}
	if e != nil {
		e.free(print)
	}
	s.unlock()
	// What is written before the slot is freed has arrived by the time it is read: the
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

// usual locks the shard for a usual take of print whose slot could not be held, and
// reports whether it may be decided so. It keeps the slot, if there is one.
func (s *shard) usual(print uint64, now int64, e **slot) bool {
	s.mu.Lock()
	if s.table.blocked.Load() > now {
		s.mu.Unlock()
		return false
	}
	if at := s.keep(print); at >= 0 {
		*e = &s.slots[at]
	}
	return true
}

// unlock unlocks the shard, where one was locked.
func (s *shard) unlock() {
	if s != nil {
		s.mu.Unlock()
	}
}
