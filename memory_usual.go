package weir

import (
	"hash/maphash"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirhq/weir/algo"
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
	print := m.print(key, "", l)
	m.near(print)
	return m.takeAt(d, m.now(), print, cost, l)
}

// table is where a shard's slots are, for near, which does not hold the shard's
// lock. Nothing is read there: an address that is old by now does no harm. Tables
// stand side by side and are seldom written, so they stay in every core's cache;
// the shards, which hold the locks, go from core to core.
type table struct {
	slots atomic.Uintptr
	mask  atomic.Uint64
}

func (t *table) at(slots []slot) {
	t.slots.Store(uintptr(unsafe.Pointer(unsafe.SliceData(slots))))
	t.mask.Store(uint64(len(slots) - 1))
}

// near has the balance of print brought near. One that is not in a cache costs more
// than all else in its decision: the shard must come first, then the slot, and
// behind the lock nothing is read ahead. Here nothing waits for anything. Tables that
// are small are in a cache, and may be one hot key's: to look at a slot that another
// core is writing costs that core a twentieth of a decision.
func (m *Memory) near(print uint64) {
	if t := &m.tables[print>>m.shift]; t.mask.Load() >= nearFrom {
		prefetch(t.address(print))
	}
}

// nearFrom is the mask of the smallest table that is brought near: with 512 shards,
// those of a megabyte in all.
const nearFrom = 63

// address is where the search for print begins.
func (t *table) address(print uint64) uintptr {
	return t.slots.Load() + uintptr(print&t.mask.Load())*slotBytes
}

// fetch has the balances of bills of one balance brought near, all at the same time,
// and notes which they are. Those of a batch come to be written, and their shards come
// along: the locks, taken one after another, would each cost a trip to the core that
// had it last. A bill by itself is often on a hot key, whose lines others are using.
func (m *Memory) fetch(bills []*Bill) {
	var last *Charge
	suffix := uint64(0) // bills of one call mostly differ in their keys alone
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
		if last == nil || c.Space != last.Space || !c.Limit.sameBalance(&last.Limit) {
			suffix = m.suffix(c.Space, &c.Limit)
		}
		last = c
		b.print = max(1, suffix^maphash.String(m.seed, c.Key))
		if len(bills) == 1 {
			m.near(b.print)
			return
		}
		prefetchOwned(m.tables[b.print>>m.shift].address(b.print))
		prefetchOwned(uintptr(unsafe.Pointer(m.shard(b.print))))
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
	s := m.shard(print)
	if !s.mu.TryLock() {
		s.lockHeld()
	}
	at := s.find(print)
	full, phase := now, int64(0)
	if at >= 0 {
		full, phase = s.slots[at].w.usual(now, n, capacity)
	}
	if full < now || s.blocked > now {
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
