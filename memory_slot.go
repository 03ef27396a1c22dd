package weir

import (
	"runtime"
	"sync/atomic"
)

// slot is one balance: see the drawing in memory.go.
//
// Each slot is a lock of its own, in two bits of its id, so that a decision writes
// one cache line and no other: with the shard's mutex it wrote two, and on a hot key
// both went from core to core at every decision.
//
//	id: print          free
//	    print │ taken  held by who does not hold the shard's mutex: see table.hold.
//	                   It waits for nothing until it lets go
//	    print │ kept   held by who holds the shard's mutex
//	    0              empty
//
// Words are read and written by the slot's holder alone, those of a log also under the
// mutex: its slot is never taken. What goes beyond the words of one slot that is there
// (a new balance, a log, a refund, a block, growth) is under the mutex, and keeps the
// slot besides.
type slot struct {
	id atomic.Uint64
	w  words
}

// The flags are bits of no print. Those above choose the shard, those below the
// place in its table.
const (
	taken = 1 << 40
	kept  = 1 << 41
	flags = taken | kept
)

// print is whose balance the slot holds; 0 is nobody's.
func (e *slot) print() uint64 { return e.id.Load() &^ flags }

// keep takes the slot for who holds the shard's mutex and may have it already.
func (e *slot) keep() {
	for tries := 0; ; tries++ {
		switch id := e.id.Load(); {
		case id&kept != 0 || id&taken == 0 && e.id.CompareAndSwap(id, id|kept):
			return
		case tries > holdTries:
			runtime.Gosched() // its holder may have been interrupted
		}
	}
}

// free lets the slot go, which its holder knows to be print's.
func (e *slot) free(print uint64) { e.id.Store(print) }

// holdTries is how often a slot is tried that is held. A holder is done within some
// tens of nanoseconds, or some hundreds where its bill is of several limits; giving up
// too soon sends all who are on a hot balance to the mutex, one after another. It is
// also what ends it where two bills each hold what the other wants.
const holdTries = 30

// table is where a shard's slots are and until when it may have blocks, for who does
// not hold the shard's mutex. Tables stand side by side and are seldom written, so
// they stay in every core's cache.
type table struct {
	slots   atomic.Pointer[[]slot] // nil while slots move
	blocked atomic.Int64           // no block ends later than this
}

// hold takes the slot of print where it is free, and nothing is to be known of the
// balance beyond its words; else nil, and the shard's mutex is the way.
func (t *table) hold(print uint64, now int64) *slot {
	at := t.slots.Load()
	if at == nil {
		return nil
	}
	slots := *at
	mask := uint64(len(slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		e := &slots[i]
		switch e.print() {
		case 0:
			return nil
		case print:
			if !e.take(print) {
				return nil
			}
			// Asked now that the slot is held: who moves slots or blocks a key says
			// so first and then waits for those who hold one, so one of the two sees
			// the other. In a table that was tidied meanwhile the slot is as it was:
			// see shard.remove.
			if t.slots.Load() != at || t.blocked.Load() > now {
				e.free(print)
				return nil
			}
			return e
		}
	}
}

func (e *slot) take(print uint64) bool {
	for range holdTries {
		if e.id.CompareAndSwap(print, print|taken) {
			return true
		}
	}
	return false
}

// close keeps all out who do not hold the mutex; who moves slots then waits for those
// inside, slot by slot. What the bill at work keeps stays its.
func (s *shard) close() { s.table.slots.Store(nil) }

// left waits until no taker is inside, and returns the id.
func (e *slot) left() uint64 {
	for tries := 0; ; tries++ {
		if id := e.id.Load(); id&taken == 0 {
			return id
		}
		if tries > holdTries {
			runtime.Gosched()
		}
	}
}

// open lets them in again.
func (s *shard) open() { s.table.slots.Store(s.shown) }
