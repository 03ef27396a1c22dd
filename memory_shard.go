package weir

import (
	"sync"
	"sync/atomic"

	"github.com/weirhq/weir/algo"
)

const (
	slotBytes  = 32
	leastSlots = 16

	blockBytes  = 48 // of a block in its map
	leastBlocks = 8  // that a full shard keeps all the same
)

// shard is a part of the balances. All fields are under mu, and the words of a slot
// are its holder's.
type shard struct {
	mu     sync.Mutex
	slots  []slot           // a power of two; linear probing from print's low bits
	shown  *[]slot          // slots, as table shows them to who does not hold mu
	used   int              // slots that are not empty
	blocks map[uint64]int64 // blocked until, by print
	table  *table

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
		switch s.slots[i].print() {
		case print:
			return int(i)
		case 0:
			return -1
		}
	}
}

// still returns the slot of print, where find returned at before some debits of
// the same bill: they may have moved it, or pushed it out: -1.
func (s *shard) still(at int, print uint64) int {
	if at >= 0 && at < len(s.slots) && s.slots[at].print() == print {
		return at
	}
	return s.find(print)
}

// keep returns the slot of print and holds it, or -1. The holder frees it.
func (s *shard) keep(print uint64) int {
	at := s.find(print)
	if at >= 0 {
		s.slots[at].keep()
	}
	return at
}

// free lets go of the slot of print, which is at, or was before it moved. A bill may
// have two balances on one slot, an enforced one and a trial: once the first has let
// go, the slot may be somebody else's.
func (s *shard) free(at int, print uint64) {
	if at = s.still(at, print); at >= 0 && s.slots[at].id.Load()&kept != 0 {
		s.slots[at].free(print)
	}
}

// judge brings the balance at slot at, which is kept, to now and says whether the
// cost fits.
func (s *shard) judge(at int, print uint64, now, wait int64, bal *Balance) {
	var none words
	w := &none
	if at >= 0 {
		w = &s.slots[at].w
	}
	if bal.Quota.Kind == algo.SlidingLog {
		bal.View = bal.Quota.AdvanceLog(s.log(print, w), now, max(bal.Cost, 0))
		bal.Fits = !bal.Never && bal.Quota.FitsLog(&bal.View, bal.Cost)
	} else {
		w.judge(now, wait, bal)
	}
	if s.table.blocked.Load() > now {
		if until := s.blocks[print]; until > now {
			bal.Fits, bal.Blocked = false, until
		}
	}
}

// judge is shard's for a balance that is its words.
func (w *words) judge(now, wait int64, bal *Balance) {
	switch q := &bal.Quota; q.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		var state algo.Bucket
		w.getBucket(&state)
		bal.View = q.AdvanceBucket(&state, now)
		bal.Fits = !bal.Never && q.FitsBucket(&bal.View, &bal.Debit, wait)
	default:
		state := w.window()
		bal.View = q.AdvanceWindow(&state, now)
		bal.Fits = !bal.Never && q.FitsWindow(&bal.View, bal.Cost)
	}
}

// debit charges what judge found to fit. It returns the slot, which is kept.
func (s *shard) debit(at int, print uint64, now int64, bal *Balance) int {
	if bal.Quota.Kind == algo.SlidingLog {
		return s.debitLog(at, print, now, bal)
	}
	at = s.place(at, print, now)
	s.slots[at].w.debit(bal)
	return at
}

// debit is shard's for a balance that is its words.
func (w *words) debit(bal *Balance) {
	switch q := &bal.Quota; q.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		bal.Delay = q.Delay(&bal.View, &bal.Debit)
		state := q.ChargeBucket(&bal.View, &bal.Debit)
		w.putBucket(&state)
	default:
		*w = packWindow(q, &bal.View, q.ChargeWindow(&bal.View, bal.Cost))
	}
	bal.Debited = true
}

// stepBack keeps the new stored time of a balance whose stored time was too far
// ahead of the clock, admitted or denied. The balance exists. Its receipts tell
// of the time before the step, where what they owe no longer stands, so they are
// void: giving back by them could pay for what others charged since. The slot is
// kept; it returns where it is, as it may have moved.
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

// anew reports whether a debit would read anew what the bucket in w owes: it was
// charged under another limit. See algo.Quota.RefundBucket.
func (w *words) anew(bal *Balance) bool {
	const forever = 1<<63 - 1
	if !bal.Quota.Kind.Bucket() || bal.View.Forget == forever {
		return false
	}
	var state algo.Bucket
	w.getBucket(&state)
	return bal.Quota.Kind == algo.TokenBucket || state.N != bal.Quota.N
}

// readAnew makes the receipts from before such a debit void: under a limit that is
// changed back nobody would know what was paid meanwhile. The slot is kept; it returns
// where it is, as stepBack does.
func (s *shard) readAnew(at int, print uint64, now int64, bal *Balance) int {
	w := &s.slots[at].w
	_, _, charged := w.times()
	s.voidReceipts(print, max(charged, bal.View.At-1), w.idleAt()+1, now)
	return s.still(at, print)
}

// place returns where the state of print is to be written: slot at, or if that
// is none, a new one, which is kept.
func (s *shard) place(at int, print uint64, now int64) int {
	if at < 0 {
		return s.insert(print, now)
	}
	return at
}

// insert returns a slot for print, which has none: the first on its way that has been
// idle for long and that nobody holds, else the empty one at the end of it.
func (s *shard) insert(print uint64, now int64) int {
	if 4*(s.used+1) > 3*len(s.slots) {
		s.rebuild(now)
	}
	mask := uint64(len(s.slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		e := &s.slots[i]
		id := e.id.Load()
		if id == 0 {
			s.used++
			e.id.Store(print | kept)
			return int(i)
		}
		if id&flags != 0 || !e.id.CompareAndSwap(id, id|kept) {
			continue // who holds it is about to use it
		}
		if e.w.idleAt() < now-grace {
			s.abandon(e)
			e.id.Store(print | kept)
			e.w = words{}
			return int(i)
		}
		e.free(id)
	}
}

// abandon drops what hangs on a slot outside it.
func (s *shard) abandon(e *slot) {
	if e.w[2]&logFlag != 0 {
		s.dropLog(e.print())
	}
}

// forget drops a balance and everything about it; its receipts become void. The clock
// is read when no taker can come between any more: the receipt of one who came first
// would outlive the reset else, and pay for what others charge after it.
func (s *shard) forget(print uint64, kind algo.Kind, clock func() int64) {
	if at := s.keep(print); at >= 0 {
		now := clock()
		e := &s.slots[at]
		due, stood := e.w.idleAt(), now
		if due >= now { // its stored time may be ahead of the clock
			stood = max(now, s.stands(print, kind, &e.w))
		}
		s.abandon(e)
		e.w = words{} // idle since the epoch: a later insert claims it
		e.free(print)
		s.voidReceipts(print, stood, due, now) // last, as it may move slots
	}
	s.unblock(print)
}

// stands returns the stored time of the balance in w.
func (s *shard) stands(print uint64, kind algo.Kind, w *words) int64 {
	switch {
	case w[2]&logFlag != 0:
		return s.logs[print].Newest()
	case kind.Bucket():
		_, _, charged := w.times()
		return charged
	}
	return w.window().Start
}

// block refuses print until now+d; 0 lifts the block.
func (s *shard) block(print uint64, now, d int64) {
	if d == 0 {
		s.unblock(print)
		return
	}
	if n := len(s.blocks); n&(n-1) == 0 { // now and then: to look through them costs all of them
		s.sweepBlocks(now)
	}
	if s.blocks == nil {
		s.blocks = make(map[uint64]int64)
	}
	if _, known := s.blocks[print]; !known && !s.makeRoom(blockBytes, now) && len(s.blocks) >= leastBlocks {
		s.unblockFirst(now)
	}
	s.blocks[print] = now + d
	s.table.blocked.Store(max(s.table.blocked.Load(), now+d))
	s.free(s.keep(print), print) // who holds it may not have seen the block: see table.hold
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
		s.table.blocked.Store(0)
	}
}

// unblockFirst drops a block for want of room: of some that the map yields first, which
// is at random, the one that ends first. To look at all would cost a full shard as many
// looks for each block that comes.
func (s *shard) unblockFirst(now int64) {
	var first uint64
	var ends int64 = 1<<63 - 1
	looked := 0
	for p, until := range s.blocks {
		if until < ends {
			first, ends = p, until
		}
		if looked++; looked == 64 {
			break
		}
	}
	delete(s.blocks, first)
	if ends > now {
		s.evicted.Add(1)
	}
}
