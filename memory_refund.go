package weir

import (
	"slices"

	"github.com/weirhq/weir/algo"
)

// ledger remembers the refunds made on one balance, so that each receipt is
// good once, later refunds know how far earlier ones pulled the balance forward
// (see algo.RefundBucket), and receipts from before a reset are void. It
// outlives its balance: until is past every receipt it has to refuse.
type ledger struct {
	refunds []refunded
	reset   int64 // store time up to which receipts are void: of the last reset, or where nothing was owed
	until   int64 // microseconds since the epoch
	counted int64 // bytes that shard.ledgerBytes counts for it
}

func (l *ledger) bytes() int64 { return ledgerBytes + int64(cap(l.refunds))*refundedBytes }

type refunded struct {
	id   uint64
	at   int64 // store time of the charge
	due  int64 // buckets: its Receipt.Due
	when int64 // store time of the refund
	pull int64 // microseconds the bucket came forward, rounded up

	// until is when the last of what was charged before the refund was due:
	// then no receipt is left that the entry has a say in.
	until int64
}

// maxRefunds bounds a ledger. Over it, and where a shard has no room for more,
// receipts refund nothing until older ones have passed.
const (
	maxRefunds    = 1024
	ledgerBytes   = 160 // a ledger and its place in the map
	refundedBytes = 48
)

// pass drops the entries that have passed, with as much grace as a clock may
// step back.
func (l *ledger) pass(now int64) {
	l.refunds = slices.DeleteFunc(l.refunds, func(f refunded) bool { return f.until < now-algo.MaxSkew })
}

// void reports whether the receipt is spent or from before a reset.
func (l *ledger) void(r *Receipt) bool {
	if r.ID == 0 || l.reset > 0 && r.At <= l.reset || len(l.refunds) >= maxRefunds {
		return true
	}
	for i := range l.refunds {
		if l.refunds[i].id == r.ID {
			return true
		}
	}
	return false
}

// pulled returns how far refunds of charges before r, made since r was charged,
// have brought r's own stretch forward. Ties count: less may come back than is
// owed, never more.
func (l *ledger) pulled(r *Receipt) (us int64) {
	for i := range l.refunds {
		f := &l.refunds[i]
		if f.when >= r.At && (f.at < r.At || f.at == r.At && f.due <= r.Due) {
			us += f.pull
		}
	}
	return us
}

// settled notes that nothing is owed any more at an instant, so what was charged before
// is paid and its receipts are void. They must not be reckoned anew: how far earlier
// refunds brought them forward would be forgotten, and they would seem to be due as
// first charged. Of those of this very instant nothing can be pulled.
func (l *ledger) settled(at int64) {
	l.reset = max(l.reset, at-1)
	l.refunds = slices.DeleteFunc(l.refunds, func(f refunded) bool { return f.at < at })
	for i := range l.refunds {
		l.refunds[i].pull = 0
	}
}

// refund gives back what c's receipt still owes and returns the units.
func (s *shard) refund(print uint64, now int64, c *Charge) int64 {
	r := &c.Receipt
	if r.At <= s.voided {
		return 0
	}
	if r.At > now+algo.MaxSkew { // from before the clock went back; the balance is another by now
		return 0
	}
	book := s.ledgers[print]
	more := int64(ledgerBytes + refundedBytes)
	if book != nil {
		book.pass(now)
		if more = 0; len(book.refunds) == cap(book.refunds) {
			more = max(book.bytes(), refundedBytes) // it doubles
		}
	}
	if more > 0 && !s.makeRoom(more, now) {
		return 0
	}
	if book == nil {
		book = new(ledger)
	}
	at := s.keep(print)
	defer s.free(at, print) // it does not move any more
	if at < 0 || book.void(r) {
		return 0
	}
	units := r.Cost
	if c.Cost > 0 {
		units = min(units, c.Cost)
	}
	w := &s.slots[at].w
	until := w.idleAt()
	entry := refunded{id: r.ID, at: r.At, due: r.Due, when: now}
	given, idle := s.giveBack(print, w, c.Limit.Quota(), units, book.pulled(r), &entry, r.Phase)
	if given == 0 {
		return 0
	}
	entry.until = max(until, r.Due)
	book.refunds = append(book.refunds, entry)
	if idle {
		book.settled(entry.when)
	}
	s.note(print, book, entry.until)
	return given
}

// giveBack changes the state in w and fills in how far it came forward.
func (s *shard) giveBack(print uint64, w *words, q algo.Quota, units, pulled int64, e *refunded, phase int64) (given int64, idle bool) {
	now := e.when
	switch q.Kind {
	case algo.TokenBucket, algo.LeakyBucket:
		var before algo.Bucket
		w.getBucket(&before)
		after, given := q.RefundBucket(before, now, units, e.due, phase, pulled)
		e.when = max(now, before.Charged)
		e.pull = before.Full - after.Full
		if before.Phase > after.Phase {
			e.pull++
		}
		w.putBucket(&after)
		return given, after.Full <= e.when && after.Phase == 0
	case algo.SlidingLog:
		log := s.log(print, w)
		if given = q.RefundLog(log, now, units, e.at); given == 0 {
			return 0, false
		}
		if log.Len() == 0 {
			s.dropLog(print)
			*w = words{}
		} else {
			*w = logWords(&q, log)
		}
		return given, false
	default:
		state, given := q.RefundWindow(w.window(), now, units, e.due)
		if given > 0 {
			v := q.AdvanceWindow(&state, now)
			v.Start, v.End = state.Start, state.Start+v.End-v.Start
			*w = packWindow(&q, &v, state)
		}
		return given, false
	}
}

// voidReceipts makes every receipt of a balance written up to stood, a stored
// time, refund nothing. due is when the balance would have been idle.
func (s *shard) voidReceipts(print uint64, stood, due, now int64) {
	if due < stood {
		return
	}
	if old := s.ledgers[print]; old != nil {
		stood = max(stood, old.reset)
	} else if !s.makeRoom(ledgerBytes, now) {
		s.voidAll(stood)
		return
	}
	s.note(print, &ledger{reset: stood}, due)
}

// voidAll makes every receipt of the shard written up to stood void. That is for
// balances that gave way, whose next owners owe nothing by them, and for want of
// room: nothing may be given back twice. It leaves the ledgers nothing to refuse.
func (s *shard) voidAll(stood int64) {
	s.voided = max(s.voided, stood)
	for _, l := range s.ledgers { // they may know of times before a step of the clock
		s.voided = max(s.voided, l.reset)
		for i := range l.refunds {
			s.voided = max(s.voided, l.refunds[i].at)
		}
	}
	s.ledgers, s.ledgerBytes = nil, 0
}

// makeRoom reports whether what is kept beside the slots may grow by so many
// bytes. It may move slots.
func (s *shard) makeRoom(bytes, now int64) bool {
	if s.bytes()+bytes > s.room {
		s.compact(now)
	}
	return s.bytes()+bytes <= s.room
}

// note stores book until at least until.
func (s *shard) note(print uint64, book *ledger, until int64) {
	if s.ledgers == nil {
		s.ledgers = make(map[uint64]*ledger)
	}
	if old := s.ledgers[print]; old != nil {
		book.until = old.until
		s.ledgerBytes -= old.counted
	}
	book.until = max(book.until, until)
	book.counted = book.bytes()
	s.ledgerBytes += book.counted
	s.ledgers[print] = book
}

// sweepLedgers drops the ledgers whose receipts have all passed.
func (s *shard) sweepLedgers(now int64) {
	for p, l := range s.ledgers {
		if l.until < now-algo.MaxSkew {
			delete(s.ledgers, p)
			s.ledgerBytes -= l.counted
		}
	}
}
