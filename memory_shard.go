package weir

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirhq/weir/algo"
)

// slot is one balance: see the drawing in memory.go.
type slot struct {
	print uint64 // 0 is empty
	w     words
}

// words is a packed state. The zero words are a balance never used.
type words [3]uint64

const (
	slotBytes  = 32
	leastSlots = 16

	blockBytes  = 48 // of a block in its map
	leastBlocks = 8  // that a full shard keeps all the same
	idleShift   = 12
	logFlag     = 1 << 63 // in w[2]: the state is in shard.logs
)

// idleAt is the first microsecond after which the balance is surely idle.
func (w *words) idleAt() int64 { return int64(w[0] >> idleShift) }

// shard is one lock's worth of balances. All fields are under mu. What every
// decision reads stands in the first cache line, and no line is two shards'.
type shard struct {
	mu     sync.Mutex
	slots  []slot           // a power of two; linear probing from print's low bits
	used   int              // slots that are not empty
	blocks map[uint64]int64 // blocked until, by print

	most int   // largest len(slots)
	room int64 // bytes for all that is kept here

	logs     map[uint64]*algo.Log // by print
	logBytes int64
	ledgers  map[uint64]*ledger // refunds made, by print

	ledgerBytes int64
	voided      int64 // store time up to which every receipt is void
	swept       int64 // when ledgers were last looked through

	evicted *atomic.Int64
	_       [8]byte
}

func (s *shard) init(room int64, evicted *atomic.Int64) {
	s.room, s.evicted = room, evicted
	s.most = leastSlots
	for int64(s.most)*2*slotBytes <= room {
		s.most *= 2
	}
}

func (s *shard) bytes() int64 { return int64(len(s.slots))*slotBytes + s.beside() }

// beside is what is kept beside the slots.
func (s *shard) beside() int64 {
	return s.logBytes + s.ledgerBytes + int64(len(s.blocks))*blockBytes
}

// find returns the slot of print, or -1.
func (s *shard) find(print uint64) int {
	if len(s.slots) == 0 {
		return -1
	}
	mask := uint64(len(s.slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		switch s.slots[i].print {
		case print:
			return int(i)
		case 0:
			return -1
		}
	}
}

// still returns the slot of print, where find returned at before some debits of
// the same bill: inserting one balance may have claimed or moved another's slot.
func (s *shard) still(at int, print uint64) int {
	if at >= 0 && at < len(s.slots) && s.slots[at].print == print {
		return at
	}
	return s.find(print)
}

// judge brings the balance at slot at to now and says whether the cost fits.
func (s *shard) judge(at int, print uint64, now, wait int64, bal *Balance) {
	var w words
	if at >= 0 {
		w = s.slots[at].w
	}
	q := &bal.Quota
	switch q.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		var state algo.Bucket
		w.getBucket(&state)
		bal.View = q.AdvanceBucket(&state, now)
		bal.Fits = !bal.Never && q.FitsBucket(&bal.View, &bal.Debit, wait)
	case algo.SlidingLog:
		bal.View = q.AdvanceLog(s.log(print, &w), now, max(bal.Cost, 0))
		bal.Fits = !bal.Never && q.FitsLog(&bal.View, bal.Cost)
	default:
		state := w.window()
		bal.View = q.AdvanceWindow(&state, now)
		bal.Fits = !bal.Never && q.FitsWindow(&bal.View, bal.Cost)
	}
	if len(s.blocks) > 0 {
		if until := s.blocks[print]; until > now {
			bal.Fits, bal.Blocked = false, until
		}
	}
}

// debit charges what judge found to fit.
func (s *shard) debit(at int, print uint64, now int64, bal *Balance) {
	q := &bal.Quota
	switch q.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		bal.Delay = q.Delay(&bal.View, &bal.Debit)
		state := q.ChargeBucket(&bal.View, &bal.Debit)
		s.place(at, print, now).putBucket(&state)
	case algo.SlidingLog:
		s.debitLog(at, print, now, bal)
	default:
		state := q.ChargeWindow(&bal.View, bal.Cost)
		*s.place(at, print, now) = packWindow(q, &bal.View, state)
	}
	bal.Debited = true
}

// stepBack keeps the new stored time of a balance whose stored time was too far
// ahead of the clock, admitted or denied. The balance exists. Its receipts tell
// of the time before the step, where what they owe no longer stands, so they are
// void: giving back by them could pay for what others charged since.
func (s *shard) stepBack(at int, print uint64, bal *Balance) {
	w := &s.slots[at].w
	due := w.idleAt()
	switch bal.Quota.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		var state algo.Bucket
		w.getBucket(&state)
		s.voidReceipts(print, state.Charged, due)
		state = algo.StepBucket(state, bal.View.Now)
		w.putBucket(&state)
	case algo.SlidingLog:
		s.voidReceipts(print, s.logs[print].Newest(), due)
		algo.StepLog(s.logs[print], bal.View.Now)
		w[0] = uint64(bal.View.Newest+bal.Quota.Period) << idleShift
	default:
		s.voidReceipts(print, due, due) // a window knows the end of its period only
		*w = packWindow(&bal.Quota, &bal.View, bal.View.Window())
	}
}

// place returns where the state of print is to be written: slot at, or if that
// is none, a new one.
func (s *shard) place(at int, print uint64, now int64) *words {
	if at < 0 {
		at = s.insert(print, now)
	}
	return &s.slots[at].w
}

// insert returns a slot for print, which has none: the first idle one on its
// way, else the empty one at the end of it.
func (s *shard) insert(print uint64, now int64) int {
	if 4*(s.used+1) > 3*len(s.slots) {
		s.rebuild(now)
	}
	mask := uint64(len(s.slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		e := &s.slots[i]
		if e.print == 0 {
			s.used++
			e.print = print
			return int(i)
		}
		if e.w.idleAt() < now {
			s.abandon(e)
			e.print, e.w = print, words{}
			return int(i)
		}
	}
}

// abandon drops what hangs on a slot outside it.
func (s *shard) abandon(e *slot) {
	if e.w[2]&logFlag != 0 {
		s.dropLog(e.print)
	}
}

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
	var bar rank
	if 8*live > 5*size { // even the largest table would soon be full again
		bar = s.bar(now, live)
	}
	old := s.slots
	s.slots, s.used = make([]slot, size), 0
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

// forget drops a balance and everything about it; its receipts become void.
func (s *shard) forget(print uint64, now int64) {
	if at := s.find(print); at >= 0 {
		e := &s.slots[at]
		s.voidReceipts(print, now, e.w.idleAt())
		s.abandon(e)
		e.w = words{} // idle since the epoch: the next insert claims it
	}
	delete(s.blocks, print)
}

// block refuses print until now+d; 0 lifts the block.
func (s *shard) block(print uint64, now, d int64) {
	for p, until := range s.blocks {
		if until <= now {
			delete(s.blocks, p)
		}
	}
	if d == 0 {
		delete(s.blocks, print)
		return
	}
	if s.blocks == nil {
		s.blocks = make(map[uint64]int64)
	}
	if _, known := s.blocks[print]; !known && s.bytes()+blockBytes > s.room && len(s.blocks) >= leastBlocks {
		s.unblockFirst()
	}
	s.blocks[print] = now + d
}

// unblockFirst drops the block that ends first, for want of room.
func (s *shard) unblockFirst() {
	var first uint64
	var ends int64 = 1<<63 - 1
	for p, until := range s.blocks {
		if until < ends {
			first, ends = p, until
		}
	}
	delete(s.blocks, first)
	s.evicted.Add(1)
}

// A bucket packs into 191 bits: the bounds of algo keep the instant it is idle
// at below 2^52 µs (the year 2112), the time to it below 2^49, and units and
// phase, which is less than the units per period, below 2^30.
//
// Both ways go word by word and in place: a struct that is copied whole right
// after its fields were written makes the processor wait for the writes.
func (w *words) putBucket(b *algo.Bucket) { w.putUsual(b.Full, b.Phase, b.Charged, b.N, b.Cap) }

func (w *words) putUsual(full, phase, charged, n, capacity int64) {
	gap := uint64(full - charged)
	w[0] = uint64(full)<<idleShift | uint64(phase)>>18
	w[1] = uint64(phase)<<46 | gap>>3
	w[2] = gap&7<<60 | uint64(n)<<30 | uint64(capacity)
}

func (w *words) getBucket(b *algo.Bucket) {
	const units = 1<<30 - 1
	b.Full, b.Phase, b.Charged = w.times()
	b.N = int64(w[2] >> 30 & units)
	b.Cap = int64(w[2] & units)
}

func (w *words) times() (full, phase, charged int64) {
	full = int64(w[0] >> idleShift)
	return full, int64(w[0]&(1<<idleShift-1)<<18 | w[1]>>46), full - int64(w[1]&(1<<46-1)<<3|w[2]>>60&7)
}

// usual returns when the bucket is idle again, now if it is, or a time before
// now where it was charged under another quota or by a clock that was ahead.
func (w *words) usual(now, n, capacity int64) (full, phase int64) {
	full, phase, charged := w.times()
	switch {
	case charged > now:
		return -1, 0
	case full < now:
		return now, 0
	case w[2]&(1<<60-1) != uint64(n)<<30|uint64(capacity):
		return -1, 0
	}
	return full, phase
}

func packWindow(q *algo.Quota, v *algo.View, state algo.Window) words {
	idle := v.End
	if q.Kind == algo.SlidingWindow && state.Cur > 0 {
		idle += q.Period
	}
	return words{uint64(idle) << idleShift, uint64(state.Start), uint64(state.Prev)<<31 | uint64(state.Cur)}
}

func (w *words) window() algo.Window {
	return algo.Window{Start: int64(w[1]), Prev: int64(w[2] >> 31), Cur: int64(w[2] & (1<<31 - 1))}
}
