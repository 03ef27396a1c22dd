package lease

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// lenders is how many goroutines talk to the store. A loan costs one trip and serves a
// tenth of a second or more; but a loaded store makes the trip milliseconds, and a
// policy's shared limits come to hundreds of hot keys.
const lenders = 8

// errand is a trip to the store: for a loan to the account of print, or, if it has a
// loan, to give that back.
type errand struct {
	print  print
	charge weir.Charge
	loan   *loan
}

func (l *Leases) run(e errand) {
	if e.loan != nil {
		l.giveBack(e.charge, e.loan)
		return
	}
	l.borrow(e.print)
}

// lend is a lender: it borrows for keys that want a loan and gives back what is over.
func (l *Leases) lend() {
	for {
		select {
		case e := <-l.errands:
			l.run(e)
		case <-l.stop:
			return
		}
	}
}

// watchTime finds what is to be given back.
func (l *Leases) watchTime() {
	tick := time.NewTicker(beat / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.collect(false)
		case <-l.stop:
			return
		}
	}
}

// Step does what the lenders have to do now. It is for Stepped leases, and for one
// goroutine at a time.
func (l *Leases) Step() {
	for {
		select {
		case e := <-l.errands:
			l.run(e)
		default:
			l.collect(false)
			return
		}
	}
}

// borrow takes a loan for a key.
func (l *Leases) borrow(p print) {
	s := &l.shards[p.b%shards]
	s.mu.Lock()
	a := s.accounts[p]
	if a == nil {
		s.mu.Unlock()
		return
	}
	charge, quota, most, life, calls := a.charge, a.quota, a.most, a.life(), a.calls
	// What the key will be asked for while the loan lasts; at most half of what
	// may be out, so that the next loan and other instances find room.
	want := max(a.demand, a.units) * int64(life) / int64(beat)
	want = max(leastLoan, min(want, most/2))
	s.mu.Unlock()

	charge.Cost, charge.Receipt = 1, weir.Receipt{}
	before := l.now()
	granted, until, after, err := l.store.Lend(context.Background(), &charge, want, most, life)
	if err == nil && granted > 0 {
		l.stats.borrowed.Add(granted)
		l.mark(l.Stats().Out)
	}

	known := l.now()

	s.mu.Lock()
	defer s.mu.Unlock()
	a.asked = false
	if err != nil || granted == 0 {
		a.dry = l.now() + beat/4
		return
	}
	one := &loan{
		receipt: charge.Receipt, left: granted, known: known, until: before + until,
		after: after, running: unspent(&quota, after, granted),
	}
	if a.calls != calls { // it may be from before a block or a reset
		a.over = append(a.over, one)
		return
	}
	if a.next = one; a.loan == nil || a.loan.left == 0 {
		a.retire()
	}
}

// mark raises the peak to out.
func (l *Leases) mark(out int64) {
	for peak := l.stats.peak.Load(); out > peak && !l.stats.peak.CompareAndSwap(peak, out); peak = l.stats.peak.Load() {
	}
}

// unspent returns the view before the loan.
func unspent(q *algo.Quota, after algo.View, units int64) algo.View {
	if q.Kind.Bucket() {
		whole := q.Debit(units)
		q.Uncharge(&after, &whole)
	}
	return after
}

// collect gives back what is left of loans whose time is up, or of all. A loan is
// given back when no purse holds any of it, nor a bill that is with the store: one whose
// slice is being filled just now is left for the next time.
func (l *Leases) collect(all bool) {
	now := l.now()
	l.empty(func(o *slice) bool { return all || now >= o.loan.until || o.left == 0 })
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		var over []*loan
		var charges []weir.Charge
		for _, a := range s.accounts {
			for range 2 {
				if o := a.loan; o != nil && (all || now >= o.until || o.left == 0 && o.held == 0) {
					a.retire()
				}
			}
			waiting := a.over[:0]
			for _, o := range a.over {
				if o.held > 0 || o.holds.Load() > 0 {
					waiting = append(waiting, o)
					continue
				}
				over, charges = append(over, o), append(charges, a.charge)
			}
			clear(a.over[len(waiting):])
			a.over = waiting
		}
		s.mu.Unlock()
		for j := range over {
			l.send(errand{charge: charges[j], loan: over[j]}, all)
		}
	}
}

// send has a lender give a loan back, or does it now, where none is there, or none has
// time: a loan that is over is asked for by nobody.
func (l *Leases) send(e errand, now bool) {
	if !now && !l.stepped {
		select {
		case l.errands <- e:
			return
		default:
		}
	}
	l.run(e)
}

// giveBack ends a loan. If the store does not hear of it, the units stay spent:
// less is admitted than might be, never more.
func (l *Leases) giveBack(charge weir.Charge, o *loan) {
	charge.Receipt = o.receipt
	err := l.store.Return(context.Background(), &charge, o.left)
	l.stats.ended.Add(o.left)
	if err == nil {
		l.stats.returned.Add(o.left)
	}
}
