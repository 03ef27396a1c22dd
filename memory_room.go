package weir

import (
	"cmp"
	"slices"
)

// A shard's table is as large as what is live wants it: it grows while there is
// room, and one that a flood has filled shrinks when it is next looked through.
// That is before a full table takes one more, and before anything is given up
// for want of room. Meanwhile the shard is closed: see shard.close.

// rebuild moves the live balances to a table with room for as many again. At
// the bound the sixth nearest to idle are left behind.
func (s *shard) rebuild(now int64) {
	defer s.open()
	then := now - grace
	live := s.expire(then)
	size := s.fitting(live)
	if crowded(live, size) { // there is no room for grace
		then, s.swept = now, now // a look that spares some does not put compact off
		live = s.expire(then)
		size = s.fitting(live)
	}
	if size == len(s.slots) && !crowded(live, size) {
		s.tidy(then)
		return
	}
	s.move(then, size, live)
}

// grace is for how many microseconds an idle balance keeps its slot. Most callers ask
// again when theirs has long been idle: without grace each finds its slot claimed by
// another, and claims one. A table so keeps who asks often, and a flood of a million
// callers a second takes 8 MiB.
const grace = 100_000

// crowded reports whether a table of size would soon be full again of so many.
func crowded(live, size int) bool { return 8*live > 5*size }

// compact frees what is idle, where something else wants the room. A shard is
// looked through seldom, or one that is full of what is live would be looked
// through for each newcomer.
func (s *shard) compact(now int64) {
	pause := compactPause + int64(len(s.slots))*slotPause
	if since := now - s.swept; since >= 0 && since < pause {
		return
	}
	defer s.open()
	s.swept = now
	live := s.expire(now)
	if size := s.fitting(live); size < len(s.slots) {
		s.move(now, size, live)
	}
}

// In microseconds. A slot is looked at within nanoseconds.
const (
	compactPause = 1e6
	slotPause    = 64
)

// expire closes the shard, whose caller opens it, drops what is idle, but leaves its
// slots to be claimed, and returns how many balances are live.
func (s *shard) expire(now int64) (live int) {
	s.close()
	for i := range s.slots {
		switch e := &s.slots[i]; {
		case e.left() == 0:
		case e.w.idleAt() >= now:
			live++
		default:
			s.abandon(e)
			e.w = words{}
		}
	}
	s.sweepLedgers(now)
	s.sweepBlocks(now)
	return live
}

// fitting returns the size of a table for so many balances and as many again, or
// the largest that there is room for.
func (s *shard) fitting(live int) int {
	size := leastSlots
	for 2*live > size && (2*size <= len(s.slots) || 2*int64(size)*slotBytes+s.beside() <= s.room) {
		size *= 2
	}
	return size
}

// move puts the live balances in a table of their own. Where it would soon be
// full again those nearest to idle are left behind.
func (s *shard) move(now int64, size, live int) {
	var bar rank
	if crowded(live, size) {
		bar = s.bar(now, live, size)
	}
	old, gone := s.slots, false
	slots := make([]slot, size)
	s.slots, s.used = slots, 0
	s.shown = &slots
	for i := range old {
		e := &old[i]
		id := e.id.Load()
		if id == 0 || e.w.idleAt() < now {
			continue
		}
		if e.rank().less(bar) {
			s.evicted.Add(1)
			s.abandon(e)
			gone = true
			continue
		}
		s.settle(id&^taken, &e.w) // see table.hold
		s.used++
	}
	if gone {
		s.voidAll(now)
	}
}

// settle puts a balance in a table that has no slot of its.
func (s *shard) settle(id uint64, w *words) {
	mask := uint64(len(s.slots) - 1)
	j := id & mask
	for s.slots[j].id.Load() != 0 {
		j = (j + 1) & mask
	}
	s.slots[j].w = *w
	s.slots[j].id.Store(id)
}

// tidy is rebuild where the table stays as large as it is: what is idle leaves, and
// who stands behind it moves up. A table whose balances are mostly idle is rebuilt
// often, and each new one would be garbage soon.
func (s *shard) tidy(now int64) {
	mask := len(s.slots) - 1
	free := 0 // where no search comes past
	for s.slots[free].id.Load() != 0 {
		free++
	}
	for i := free + 1; i <= free+mask; i++ {
		for e := &s.slots[i&mask]; e.id.Load() != 0 && e.w.idleAt() < now; {
			s.remove(i & mask)
			s.used--
		}
	}
}

// remove empties slot i, and so that searches still end where they should, moves each
// balance behind it up to the gap unless that lies before where its search begins.
// Slots are kept before they change: a taker who came late has one until it has seen
// that the shard is closed, and would let go of another's.
func (s *shard) remove(i int) {
	mask := len(s.slots) - 1
	s.slots[i].keep()
	for j := i; ; {
		j = (j + 1) & mask
		e := &s.slots[j]
		id := e.id.Load() &^ taken
		if id == 0 {
			break
		}
		if home := int(id) & mask; (j-home)&mask >= (j-i)&mask {
			e.keep()
			s.slots[i].w = e.w
			s.slots[i].id.Store(id)
			i = j
		}
	}
	s.slots[i].id.Store(0)
}

// rank orders balances by what is lost with them: first the time to idle, then,
// for windows that all end at one instant, the units used. The print only
// breaks ties, so that a shard of equals is thinned and not emptied.
type rank struct {
	idle, used int64
	print      uint64
}

func (e *slot) rank() rank { return rank{e.w.idleAt(), int64(e.w[2] & (1<<31 - 1)), e.print()} }

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.idle, o.idle), cmp.Compare(r.used, o.used), cmp.Compare(r.print, o.print))
}

func (r rank) less(o rank) bool { return r.compare(o) < 0 }

// bar returns the rank below which about a sixth of the live balances lie, or
// more where a table of size is to be no fuller than five eighths. It goes by a
// sample.
func (s *shard) bar(now int64, live, size int) rank {
	sample := make([]rank, 0, 512)
	stride := live/cap(sample) + 1
	seen := 0
	for i := range s.slots {
		if e := &s.slots[i]; e.id.Load() != 0 && e.w.idleAt() >= now {
			if seen%stride == 0 {
				sample = append(sample, e.rank())
			}
			seen++
		}
	}
	slices.SortFunc(sample, rank.compare)
	return sample[len(sample)*max(live/6, live-size*5/8)/live]
}
