package weir

import (
	"hash/maphash"
	"time"

	"github.com/weirhq/weir/algo"
)

// A bill is decided by its slots alone where all are there, free and hold all there
// is to know (decideHeld), and else under the shards' mutexes (decideLocked). The
// first way writes a line for each balance and takes no mutex; it gives up, and has
// changed nothing, as soon as one slot is not to be had, so it cannot wait in a
// circle with another bill.

// few is how many balances a bill has at most for what is noted of them to stand on
// the stack.
const few = 8

// decide decides b, whose balances are prepared.
func (m *Memory) decide(b *Bill, now int64) {
	var room [few]uint64
	prints := room[:0]
	if len(b.balances) > few {
		prints = make([]uint64, 0, algo.MaxCharges)
	}
	if len(b.balances) == 1 {
		prints = append(prints, b.print) // fetch wrote it
	} else {
		prints = m.prints(prints, b)
	}
	if !m.decideHeld(b, prints, now) {
		m.decideLocked(b, prints, now)
	}
}

// prints appends whose balances b's are, and has them brought near together.
func (m *Memory) prints(prints []uint64, b *Bill) []uint64 {
	key, hash := "", uint64(0) // charges of one bill often share a key
	for i := range b.balances {
		c := b.balances[i].Charge
		if c.Key != key {
			key, hash = c.Key, maphash.String(m.seed, c.Key)
		}
		print := printOf(c.Limit.tag^m.space(c.Space), hash)
		m.near(print)
		prints = append(prints, print)
	}
	return prints
}

// decideHeld decides b if all its slots can be held.
func (m *Memory) decideHeld(b *Bill, prints []uint64, now int64) bool {
	var room [few]*slot
	held := room[:0]
	if len(prints) > few {
		held = make([]*slot, 0, algo.MaxCharges)
	}
	fits, all := true, false
	wait := int64(b.MaxWait / time.Microsecond)
	take := b.Verb == algo.Take
	for i := range b.balances {
		bal := &b.balances[i]
		if bal.Trial != 0 || bal.Quota.Kind == algo.SlidingLog {
			break
		}
		e := m.table(prints[i]).hold(prints[i], now)
		if e == nil {
			break
		}
		held = append(held, e)
		e.w.judge(now, wait, bal)
		if take && bal.Cost != 0 && (bal.View.Stepped || e.w.anew(bal)) {
			break
		}
		fits = fits && (bal.Fits || bal.Cost == 0)
		all = i == len(b.balances)-1
	}
	for i, e := range held {
		if bal := &b.balances[i]; all && fits && take && bal.Cost != 0 {
			e.w.debit(bal)
		}
		e.free(prints[i])
	}
	return all
}

// decideLocked decides b under the mutexes of its shards: it judges all, then debits
// all.
func (m *Memory) decideLocked(b *Bill, prints []uint64, now int64) {
	var places [algo.MaxCharges]int
	wait := int64(b.MaxWait / time.Microsecond)
	locked := m.lock(prints)
	refused, culprit := 0, -1
	for i := range b.balances {
		bal := &b.balances[i]
		s := m.shard(prints[i])
		places[i] = s.keep(prints[i])
		if bal.Trial != 0 {
			continue
		}
		s.judge(places[i], prints[i], now, wait, bal)
		if !bal.Fits && bal.Cost != 0 {
			refused++
			culprit = i
		}
	}
	take := b.Verb == algo.Take
	for i := range b.balances {
		bal := &b.balances[i]
		if bal.Trial == 0 && take && bal.Cost != 0 {
			places[i] = m.charge(places[i], prints[i], now, bal, refused == 0)
		}
	}
	for i := range b.balances { // trials, after the verdict
		bal := &b.balances[i]
		if bal.Trial == 0 {
			continue
		}
		s := m.shard(prints[i])
		places[i] = s.still(places[i], prints[i])
		s.judge(places[i], prints[i], now, wait, bal)
		if take && bal.Cost != 0 {
			charge := bal.Fits && (refused == 0 || refused == 1 && int(bal.Trial)-1 == culprit)
			places[i] = m.charge(places[i], prints[i], now, bal, charge)
		}
	}
	for i, print := range prints {
		m.shard(print).free(places[i], print)
	}
	m.unlock(locked)
}

// charge writes what a judged balance came to: a stored time that stepped back,
// receipts that another limit made void, and the debit if there is one. It returns the slot, which is kept.
func (m *Memory) charge(at int, print uint64, now int64, bal *Balance, debit bool) int {
	s := m.shard(print)
	at = s.still(at, print) // another balance of the bill may have moved it
	if bal.View.Stepped && at >= 0 {
		at = s.stepBack(at, print, bal)
		m.stepped.Add(1)
	}
	if debit && at >= 0 && s.slots[at].w.anew(bal) {
		at = s.readAnew(at, print, now, bal)
	}
	if debit {
		at = s.debit(at, print, now, bal)
	}
	return at
}
