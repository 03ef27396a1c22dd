package weir

import (
	"cmp"
	"slices"
)

// rebuild moves the live balances to a table with room for as many again. At
// the bound the sixth nearest to idle are left behind.
func (s *shard) rebuild(now int64) {
	live := 0
	for i := range s.slots {
		if s.slots[i].print != 0 && s.slots[i].w.idleAt() >= now {
			live++
		}
	}
	size := max(len(s.slots), leastSlots)
	for size < s.most && 2*live > size && 2*int64(size)*slotBytes+s.beside() <= s.room {
		size *= 2
	}
	if size == len(s.slots) && live <= fewLive && 2*live <= size {
		s.tidy(now)
		return
	}
	var bar rank
	if 8*live > 5*size { // even the largest table would soon be full again
		bar = s.bar(now, live)
	}
	old := s.slots
	slots := make([]slot, size)
	s.slots, s.used = slots, 0
	mask := uint64(size - 1)
	for i := range old {
		e := &old[i]
		if e.print == 0 {
			continue
		}
		if live := e.w.idleAt() >= now; !live || e.rank().less(bar) {
			if live {
				s.evicted.Add(1)
			}
			s.abandon(e)
			continue
		}
		j := e.print & mask
		for s.slots[j].print != 0 {
			j = (j + 1) & mask
		}
		s.slots[j] = *e
		s.used++
	}
	s.table.at(slots)
	s.sweepLedgers(now)
}

// fewLive is how many balances move within their table. One whose balances are
// mostly idle is rebuilt often, and each new table would be garbage soon.
const fewLive = 16

// tidy is rebuild where the table stays as large as it is and few are live.
func (s *shard) tidy(now int64) {
	var room [fewLive]slot
	kept := room[:0]
	for i := range s.slots {
		switch e := &s.slots[i]; {
		case e.print == 0:
		case e.w.idleAt() >= now:
			kept = append(kept, *e)
		default:
			s.abandon(e)
		}
	}
	clear(s.slots)
	mask := uint64(len(s.slots) - 1)
	for i := range kept {
		j := kept[i].print & mask
		for s.slots[j].print != 0 {
			j = (j + 1) & mask
		}
		s.slots[j] = kept[i]
	}
	s.used = len(kept)
	s.sweepLedgers(now)
}

// rank orders balances by what is lost with them: first the time to idle, then,
// for windows that all end at one instant, the units used. The print only
// breaks ties, so that a shard of equals is thinned and not emptied.
type rank struct {
	idle, used int64
	print      uint64
}

func (e *slot) rank() rank { return rank{e.w.idleAt(), int64(e.w[2] & (1<<31 - 1)), e.print} }

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.idle, o.idle), cmp.Compare(r.used, o.used), cmp.Compare(r.print, o.print))
}

func (r rank) less(o rank) bool { return r.compare(o) < 0 }

// bar returns the rank below which about a sixth of the live balances lie, from
// a sample.
func (s *shard) bar(now int64, live int) rank {
	sample := make([]rank, 0, 512)
	stride := live/cap(sample) + 1
	seen := 0
	for i := range s.slots {
		if e := &s.slots[i]; e.print != 0 && e.w.idleAt() >= now {
			if seen%stride == 0 {
				sample = append(sample, e.rank())
			}
			seen++
		}
	}
	slices.SortFunc(sample, rank.compare)
	return sample[len(sample)/6]
}
