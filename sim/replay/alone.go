package replay

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
)

// A rule's refusals are those of the rule alone, and the gate does not say quite
// that: a bill that one rule refuses is charged under no other either, and
// leaves them more room than they would have had without that rule.
//
// As long as this has not happened to a balance, it stands as if its rule were
// alone. When it does, a copy of the balance is kept beside the gate's, and is
// charged what the rule alone would have charged, from then on:
//
//	bill refused, this charge would fit ─ copy the balance ─┐
//	every later charge on it ──────────────────────────────→ asked of the copy
//
// So what this costs depends on who is refused, and not on how long the log is.
// The copies go by the algorithms themselves, with what the bill has worked out
// already: a store would look for each key anew and judge what has been judged.
type alone struct {
	gate   *weir.Memory // the store of the gate
	now    *int64       // its clock
	copies map[uint64]*lone
	// filter has a bit for each of copies, and stays in the cache: most charges
	// have none, and to find that out in the map is dear.
	filter [1 << 10]uint64
	room   int64 // bytes for more copies
	short  int64 // how often a balance found none
	single weir.Balance
}

// lone is a balance as it would stand if its rule were alone. Its limit says
// which field it is in.
type lone struct {
	bucket algo.Bucket
	window algo.Window
	log    *algo.Log
}

const (
	loneBytes     = 128 // about what a lone and its place in the map take
	logEntryBytes = 16
)

func newAlone(of *weir.Memory, now *int64, bytes int64) *alone {
	return &alone{gate: of, now: now, room: bytes, copies: map[uint64]*lone{}}
}

// find returns the copy of a balance, or nil.
func (a *alone) find(balance uint64) *lone {
	if a.filter[balance>>6%uint64(len(a.filter))]&(1<<(balance%64)) == 0 {
		return nil
	}
	return a.copies[balance]
}

// copy copies a balance that the bill has judged and not charged. It returns nil
// where there is no room.
func (a *alone) copy(bal *weir.Balance, balance uint64) *lone {
	q, v := &bal.Quota, &bal.View
	l, size := new(lone), int64(loneBytes)
	switch {
	case q.Kind.Bucket():
		l.bucket = algo.Bucket{Full: v.Full, Phase: v.Phase, Charged: v.At, N: q.N, Cap: q.Capacity}
	case q.Kind.Window():
		l.window = v.Window()
	default:
		l.log = a.gate.CopyLog(bal.Charge)
		size += 2 * q.N * logEntryBytes // what it may come to
	}
	if size > a.room {
		a.short++
		return nil
	}
	a.room -= size
	a.copies[balance] = l
	a.filter[balance>>6%uint64(len(a.filter))] |= 1 << (balance % 64)
	return l
}

// judge puts what each rule alone would have said in the place of what the bill
// says of its charges: whether it would have admitted them, and what would
// remain. The bill's own decision stays. hashes are those of the charges' keys. The
// bill was but a peek if the request was barred for want of a key part.
func (a *alone) judge(v *gate.Verdict, hashes []uint64, barred bool) {
	if v.Bill.Allowed && len(a.copies) == 0 && !barred {
		return
	}
	refused, culprit := 0, -1
	if !v.Bill.Allowed {
		for i := range v.Bill.Charges {
			if v.Bill.Charges[i].Trial == 0 && !v.Bill.Each[i].Allowed {
				refused, culprit = refused+1, i
			}
		}
	}
	balances := v.Bill.Balances()
	for i := range v.Bill.Charges {
		c, d := &v.Bill.Charges[i], &v.Bill.Each[i]
		if c.Limit.IsUnlimited() {
			continue
		}
		bal := &a.single
		if len(balances) > 0 {
			bal, balances = &balances[0], balances[1:] // no two charges here are on one
		}
		if c.Peek {
			continue
		}
		balance := balanceOf(c, seatOf(v, i), hashes[i])
		l := a.find(balance)
		if l == nil {
			if v.Bill.Allowed && !barred {
				continue
			}
			// A try is charged although its live limit refuses.
			charged := !barred && (refused == 0 || refused == 1 && c.Trial > 0 && int(c.Trial)-1 == culprit)
			if !d.Allowed || charged {
				continue
			}
			if l = a.copy(bal, balance); l == nil {
				continue
			}
		}
		if bal == &a.single {
			a.measure(c)
		}
		d.Allowed, d.Remaining = l.take(bal, *a.now)
	}
}

// measure fills single, since a bill of one usual charge is decided without a
// Balance.
func (a *alone) measure(c *weir.Charge) {
	bal := &a.single
	bal.Quota, bal.Cost = c.Limit.Quota(), c.Cost
	bal.Measure()
}

// take charges what bal is charged, if it fits.
func (l *lone) take(bal *weir.Balance, now int64) (fits bool, remaining int64) {
	q := &bal.Quota
	var v algo.View
	switch {
	case q.Kind.Bucket():
		v = q.AdvanceBucket(&l.bucket, now)
		if fits = !bal.Never && q.FitsBucket(&v, &bal.Debit, 0); fits {
			l.bucket = q.ChargeBucket(&v, &bal.Debit)
		}
	case q.Kind.Window():
		v = q.AdvanceWindow(&l.window, now)
		if fits = !bal.Never && q.FitsWindow(&v, bal.Cost); fits {
			l.window = q.ChargeWindow(&v, bal.Cost)
		}
	default:
		v = q.AdvanceLog(l.log, now, bal.Cost)
		if fits = !bal.Never && q.FitsLog(&v, bal.Cost); fits {
			q.ChargeLog(l.log, &v, bal.Cost)
		}
	}
	return fits, q.Report(&v, bal.Cost, 0, true).Remaining
}

// balanceOf tells balances apart: the limits of two plans are two on one key.
func balanceOf(c *weir.Charge, seat int, hash uint64) uint64 {
	hash ^= uint64(c.Limit.Period())*0x9E3779B97F4A7C15 ^ uint64(c.Limit.Kind())
	return hash ^ uint64(seat)*0xC2B2AE3D27D4EB4F
}
