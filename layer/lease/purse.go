package lease

import (
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// purse is what one processor spends from: slices of loans. With one pile for all,
// processors wait for each other at exactly the keys that are hot, and two decide
// no more than one. There are a few times as many purses as processors, so that two
// seldom come to share one; that they may is why it has a lock, which is free to
// whoever is alone.
type purse struct {
	mu     sync.Mutex
	spent  int64 // units, ever
	slices [perPurse]slice
	_      [64]byte
}

const (
	perPurse = 64 // slices, by balance
	pieces   = 16 // a slice is this part of what is left of a loan
)

// slice is some units of a loan in a purse. Its purse's mutex guards it.
type slice struct {
	account *account // nil if it is empty
	print   print    // of the account
	loan    *loan
	left    int64
	running algo.View // the balance as these units are spent
	takes   int       // that the account was not told of
	units   int64
}

// of reports whether the slice is c's.
func (o *slice) of(c *weir.Charge) bool {
	if o.account == nil {
		return false
	}
	mine := &o.account.charge
	return mine.Key == c.Key && mine.Space == c.Space && mine.Limit == c.Limit
}

// has reports whether bal's cost can be spent from the slice as it is.
func (o *slice) has(bal *weir.Balance, now time.Duration) bool {
	return o.of(bal.Charge) && o.left >= bal.Cost && now < o.loan.until
}

// spend takes bal's cost from the slice, which has as much, and writes the answer
// into bal. The answer's numbers count the whole loan as spent; the view that is
// returned is for receipts, in which each charge has its own stretch of time, as
// if charged one by one.
func (o *slice) spend(bal *weir.Balance, now time.Duration) algo.View {
	o.left -= bal.Cost
	o.takes++
	o.units += bal.Cost
	bal.View = o.loan.after
	v := &bal.View
	v.Now += max(0, now-o.loan.known).Microseconds()
	v.At = max(v.At, v.Now)
	if v.Full < v.At {
		v.Full, v.Phase = v.At, 0
	}
	bal.Fits, bal.Debited, bal.Blocked, bal.Delay = true, true, 0, 0
	if bal.Quota.Kind.Bucket() {
		bal.Quota.ChargeBucket(&o.running, &bal.Debit)
	}
	return o.running
}

// date has a receipt tell of the debit in the store, which is the loan's, and for a bucket
// of its own stretch of that. By a later time a reset since the loan would not make it
// void, and what came back of the loan would count as if it had been owed before it.
func date(r *weir.Receipt, kind algo.Kind, running *algo.View) {
	if r.ID == 0 {
		return
	}
	if r.At = running.At; kind.Bucket() {
		r.Due, r.Phase = running.Full, running.Phase
	}
}

// fill puts units of bal's key into o, at least its cost, and reports whether it
// could. It counts the take where it could not: who spends from a slice counts it
// there. Lock rule: under the purse's mutex.
func (l *Leases) fill(o *slice, bal *weir.Balance, key uint64, now time.Duration) bool {
	most := bal.Quota.Most() * l.overshoot / 1_000_000
	if most < leastLoan {
		return false
	}
	if o.of(bal.Charge) {
		l.putBack(o, now)
	}
	fresh := slice{print: l.print(bal.Charge, key)}
	s := &l.shards[fresh.print.b%shards]
	s.mu.Lock()
	a := s.accounts[fresh.print]
	if a == nil {
		s.watch(fresh.print, bal, most, now)
		s.mu.Unlock()
		return false
	}
	if a.ready(bal.Cost, now) {
		fresh.cut(a, bal.Cost)
	} else {
		a.tally(now, 1, bal.Cost)
	}
	wants := a.wants(now, l.hot)
	s.mu.Unlock()
	if wants {
		l.wish(fresh.print)
	}
	if fresh.account == nil {
		return false
	}
	l.putBack(o, now) // another key's
	*o = fresh
	return true
}

// cut fills an empty slice from a's loan, which has at least cost. Lock rule: under
// the mutexes of the purse and of the account's shard.
func (o *slice) cut(a *account, cost int64) {
	from := a.loan
	o.account, o.loan, o.left, o.running = a, from, max(cost, from.left/pieces), from.running
	from.left -= o.left
	from.held++
	if a.quota.Kind.Bucket() {
		whole := a.quota.Debit(o.left)
		a.quota.ChargeBucket(&from.running, &whole)
	}
}

// putBack takes a slice's units back. The balance runs back with them: receipts of
// what is spent later would else be due for units that were never spent. Stretches
// of receipts may then overlap, which makes them due earlier and never later than
// what all of them owe.
func (o *loan) putBack(q *algo.Quota, units int64) {
	o.left += units
	o.held--
	if units > 0 {
		o.running = unspent(q, o.running, units)
	}
}

// putBack empties a slice: what is left of it is the loan's again, which may have
// ended. Lock rule: under the purse's mutex.
func (l *Leases) putBack(o *slice, now time.Duration) {
	if o.account == nil {
		return
	}
	s := &l.shards[o.print.b%shards]
	s.mu.Lock()
	o.loan.putBack(&o.account.quota, o.left)
	o.account.tally(now, o.takes, o.units)
	s.mu.Unlock()
	*o = slice{}
}

// report tells the account what was spent since it was told last. Lock rule: under
// the purse's mutex.
func (l *Leases) report(o *slice, now time.Duration) {
	s := &l.shards[o.print.b%shards]
	s.mu.Lock()
	o.account.tally(now, o.takes, o.units)
	wants := o.account.wants(now, l.hot)
	s.mu.Unlock()
	o.takes, o.units = 0, 0
	if wants {
		l.wish(o.print)
	}
}

// empty puts back the slices of every purse that are chosen, and has the others
// report.
func (l *Leases) empty(chosen func(*slice) bool) {
	now := l.now()
	for i := range l.purses {
		p := &l.purses[i]
		p.mu.Lock()
		for j := range p.slices {
			switch o := &p.slices[j]; {
			case o.account == nil:
			case chosen(o):
				l.putBack(o, now)
			case o.takes > 0:
				l.report(o, now)
			}
		}
		p.mu.Unlock()
	}
}

// spent returns how many units were spent in all.
func (l *Leases) spent() (units int64) {
	for i := range l.purses {
		p := &l.purses[i]
		p.mu.Lock()
		units += p.spent
		p.mu.Unlock()
	}
	return units
}
