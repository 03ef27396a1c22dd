package weir

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirhq/weir/algo"
)

// fallback answers bills that the store did not decide. It is the only place
// that turns a store error into the answer a limit carries: layers and stores
// pass errors up.
type fallback struct {
	instances func() int
	now       func() int64 // or nil

	once   sync.Once
	memory *Memory // balances while the store is away; made at the first failure, which may come after Close
	debts  debts
}

// answer decides b by the failure answers of its limits. Closed beats Local and
// Share, which beat Open: whoever wrote closed would rather refuse than guess,
// and whoever wrote local still wants a limit.
func (f *fallback) answer(b *Bill) {
	switch stated(b) {
	case Closed:
		f.refuse(b)
	case Open:
		b.admit()
	default:
		f.decideLocally(b)
	}
	for i := range b.Charges { // a debit here is none there: nothing may refund it from the store
		b.Charges[i].Receipt = Receipt{}
	}
}

// stated returns the answer that wins in b. Open stands only while the store
// cannot be reached, so that load cannot switch limits off. A closed limit that is only
// asked refuses nothing, and so does not keep what stands beside it from being charged.
func stated(b *Bill) Failure {
	down := outOfReach(b)
	winner, asked := Open, false
	for i := range b.Charges {
		if !b.guarded(i) {
			continue
		}
		switch c := &b.Charges[i]; {
		case c.Limit.failure == Closed && c.Cost != 0:
			return Closed
		case c.Limit.failure == Closed:
			asked = true
		case c.Limit.failure.guesses(down):
			winner = Local
		}
	}
	if asked && winner == Open {
		return Closed // its answer to who asks: nothing is left
	}
	return winner
}

// outOfReach reports whether b was not decided because nobody can be asked.
func outOfReach(b *Bill) bool {
	var se *StoreError
	return errors.As(b.Err, &se) && se.Unreachable
}

// refuseAnyway answers charge i if no store is needed to refuse it: what can
// never fit, and what a limit of nothing is asked for. It is the limit that says
// so and not the balance's quota, which a layer may have cut to a part of it.
func (b *Bill) refuseAnyway(i int) bool {
	bal := &b.balances[b.entry[i]]
	var whole algo.Quota
	bal.Charge.Limit.fill(&whole)
	if bal.Cost == 0 || whole.N > 0 && bal.Cost > 0 && !whole.TooLarge(bal.Cost) {
		return false
	}
	d := &b.Each[i]
	d.Allowed, d.Reason, d.RetryAfter, d.Remaining = false, Limited, Never, 0
	if whole.N > 0 {
		d.Reason = TooLarge
	}
	return true
}

// refuse answers a bill that Closed decides: nothing is debited, and what stands
// beside the closed limits has its own answer. That of Local and Share is how this
// instance's own balance stands, which may refuse for longer than Closed does.
func (f *fallback) refuse(b *Bill) {
	down := outOfReach(b)
	local := f.peek(b, down)
	for i := range b.Each {
		d := &b.Each[i]
		*d = Decision{Allowed: true, Source: "none", Limit: Unbounded, Remaining: Unbounded}
		if !b.guarded(i) {
			continue
		}
		l := &b.Charges[i].Limit
		d.Limit = l.Most()
		switch {
		case l.failure == Closed:
			d.Remaining = 0
			if !b.refuseAnyway(i) && b.Charges[i].Cost > 0 {
				d.Allowed, d.Reason, d.RetryAfter = false, FailedClosed, closedRetry
			}
		case l.failure.guesses(down):
			*d, local = local[0], local[1:]
			d.Source = "local"
		default:
			d.Reason, d.Remaining = FailedOpen, d.Limit
			b.refuseAnyway(i)
		}
	}
	b.conclude()
}

// peek returns how the charges of b that this instance decides by itself stand in
// its memory, in their order. They stand under what a layer has left of their limits,
// as they would if they were charged.
func (f *fallback) peek(b *Bill, down bool) []Decision {
	var charges []Charge
	var left []*Balance
	for i := range b.Charges {
		if b.guarded(i) && b.Charges[i].Limit.failure.guesses(down) {
			charges, left = append(charges, b.Charges[i]), append(left, &b.balances[b.entry[i]])
		}
	}
	if charges == nil {
		return nil
	}
	aside := &Bill{Verb: algo.Peek, MaxWait: b.MaxWait, Charges: charges}
	if aside.prepare() != nil { // what is part of a bill that was prepared can be prepared
		return make([]Decision, len(charges))
	}
	for i, from := range left {
		bal := &aside.balances[aside.entry[i]]
		bal.Quota, bal.Again = from.Quota, from.Again
		bal.Measure()
	}
	f.applyLocally(aside)
	return aside.Each
}

// guarded reports whether charge i is on a limit that the verdict hangs on.
func (b *Bill) guarded(i int) bool { return b.entry[i] >= 0 && b.Charges[i].Trial == 0 }

// guesses reports whether a limit with this answer is decided in this instance's
// memory: Open stands only while the store cannot be reached.
func (f Failure) guesses(down bool) bool { return f != Closed && (f != Open || !down) }

func (b *Bill) admit() {
	for i := range b.Each {
		d := &b.Each[i]
		*d = Decision{Allowed: true, Source: "none", Limit: Unbounded, Remaining: Unbounded}
		if b.guarded(i) {
			d.Reason = FailedOpen
			d.Limit = b.Charges[i].Limit.Most()
			d.Remaining = d.Limit
			b.refuseAnyway(i)
		}
	}
	b.conclude()
}

// conclude makes the bill's decision of its charges'.
func (b *Bill) conclude() {
	b.Allowed = true
	for i := range b.Each {
		b.Allowed = b.Allowed && b.Each[i].Allowed
	}
	b.bind()
}

// closedRetry is when a caller refused for want of a store may ask again. No
// store said when, so it is a plain second.
const closedRetry = time.Second

// decideLocally decides b in this instance's memory, each Share limit at this
// instance's part.
func (f *fallback) decideLocally(b *Bill) {
	cause := b.Err
	f.applyLocally(b)
	b.Err = cause
	if f.now == nil { // not in a simulation
		f.debts.record(b)
	}
	for i := range b.Each {
		b.Each[i].Source = "local"
	}
	b.Source = "local"
}

// undo gives back what this instance admitted of b by itself. Debts need not be told:
// no more is owed than is missing here.
func (f *fallback) undo(b *Bill) {
	if !b.Allowed || b.Source != "local" {
		return
	}
	back := Bill{Verb: algo.Refund}
	for i := range b.balances {
		bal := &b.balances[i]
		if !bal.Debited {
			continue
		}
		bal.Debited = false // once
		back.Charges = append(back.Charges, Charge{
			Key: bal.Charge.Key, Space: bal.Charge.Space, Receipt: bal.Receipt(bal.Cost),
			Limit: bal.Charge.Limit.Cut(&bal.Quota), // as it was charged
		})
	}
	f.ask(&back)
}

func (f *fallback) applyLocally(b *Bill) {
	b.shareAmong(f.alive())
	f.ask(b)
}

// ask asks this instance's memory as the bill stands.
func (f *fallback) ask(b *Bill) {
	f.once.Do(func() { f.memory = NewMemory(MemoryOptions{Now: f.now}) })
	f.memory.Apply(context.Background(), []*Bill{b})
}

// shareAmong makes each Share limit this instance's part of it.
func (b *Bill) shareAmong(n int) {
	for i := range b.balances {
		bal := &b.balances[i]
		if bal.Charge.Limit.failure == Share && n > 1 {
			never := bal.Never
			part := bal.Charge.Limit.Cut(&bal.Quota).Share(n) // of what a layer has left of the limit
			bal.Quota = part.Quota()
			if bal.Measure(); bal.Never && !never { // only while the store is away
				bal.Again = int64(closedRetry / time.Microsecond)
			}
		}
	}
}

// owed returns how many units this instance's balance for c is short of, under the
// quota that it was charged under: the limit, or the part of it that a layer and
// this instance's share have left.
func (f *fallback) owed(c *Charge, q *algo.Quota) int64 {
	b := Bill{Verb: algo.Peek, Charges: []Charge{*c}}
	b.Charges[0].Cost, b.Charges[0].Peek = 0, true
	if b.prepare() != nil {
		return 0
	}
	b.balances[0].Quota = *q
	b.balances[0].Measure()
	f.ask(&b)
	return b.Limit - b.Remaining
}

// alive returns how many instances share.
func (f *fallback) alive() int {
	if f.instances == nil {
		return 1
	}
	return max(1, f.instances())
}
