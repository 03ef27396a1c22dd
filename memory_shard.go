package weir

import (
	"sync"
	"sync/atomic"

	"github.com/weirhq/weir/algo"
)

// slot is one balance: see the drawing in memory.go.
type slot struct {
	print uint64 // 0 is empty
	w     words
}

const (
	slotBytes  = 32
	leastSlots = 16

	blockBytes  = 48 // of a block in its map
	leastBlocks = 8  // that a full shard keeps all the same
)

// shard is one lock's worth of balances. All fields are under mu. What every
// decision reads stands in the first cache line, and no line is two shards'.
type shard struct {
	mu      sync.Mutex
	slots   []slot           // a power of two; linear probing from print's low bits
	used    int              // slots that are not empty
	blocked int64            // no block ends later than this
	blocks  map[uint64]int64 // blocked until, by print
	table   *table           // says where slots are

	room int64 // bytes for all that is kept here

	logs     map[uint64]*algo.Log // by print
	logBytes int64
	ledgers  map[uint64]*ledger // refunds made, by print

	ledgerBytes int64
	voided      int64 // store time up to which every receipt is void
	swept       int64 // when it was last looked through for what is idle

	evicted *atomic.Int64
}

func (s *shard) init(room int64, evicted *atomic.Int64, table *table) {
	s.room, s.evicted, s.table = room, evicted, table
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
	if s.blocked > now {
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
// void: giving back by them could pay for what others charged since. It returns
// the slot of the balance, which may have moved.
func (s *shard) stepBack(at int, print uint64, bal *Balance) int {
	w, now := &s.slots[at].w, bal.View.Now
	due := w.idleAt()
	stood := due // a window knows the end of its period only
	switch bal.Quota.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		var state algo.Bucket
		w.getBucket(&state)
		stood = state.Charged
		state = algo.StepBucket(state, now)
		w.putBucket(&state)
	case algo.SlidingLog:
		stood = s.logs[print].Newest()
		algo.StepLog(s.logs[print], now)
		w[0] = uint64(bal.View.Newest+bal.Quota.Period) << idleShift
	default:
		*w = packWindow(&bal.Quota, &bal.View, bal.View.Window())
	}
	s.voidReceipts(print, stood, due, now) // last, as it may move slots
	return s.still(at, print)
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
			e.print = print
			e.w = words{}
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

// forget drops a balance and everything about it; its receipts become void.
func (s *shard) forget(print uint64, now int64) {
	if at := s.find(print); at >= 0 {
		e := &s.slots[at]
		due := e.w.idleAt()
		s.abandon(e)
		e.w = words{}                        // idle since the epoch: the next insert claims it
		s.voidReceipts(print, now, due, now) // last, as it may move slots
	}
	s.unblock(print)
}

// block refuses print until now+d; 0 lifts the block.
func (s *shard) block(print uint64, now, d int64) {
	s.sweepBlocks(now)
	if d == 0 {
		s.unblock(print)
		return
	}
	if s.blocks == nil {
		s.blocks = make(map[uint64]int64)
	}
	if _, known := s.blocks[print]; !known && !s.makeRoom(blockBytes, now) && len(s.blocks) >= leastBlocks {
		s.unblockFirst()
	}
	s.blocks[print] = now + d
	s.blocked = max(s.blocked, now+d)
}

// sweepBlocks drops the blocks that have ended.
func (s *shard) sweepBlocks(now int64) {
	for p, until := range s.blocks {
		if until <= now {
			delete(s.blocks, p)
		}
	}
}

func (s *shard) unblock(print uint64) {
	if delete(s.blocks, print); len(s.blocks) == 0 {
		s.blocked = 0
	}
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
