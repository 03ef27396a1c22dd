package weir

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/algo"
)

// Options configures New. The zero value limits in memory.
type Options struct {
	// Store keeps the balances; nil for memory. The Limiter owns and closes it.
	Store Store
	// Instances returns how many instances are alive, for limits that answer a
	// store failure with Share. Nil counts one.
	Instances func() int
	// Observer is told of every decision, or nil.
	Observer Observer
	// Now replaces the clock of answers that are given without the store, in
	// tests and simulations; see MemoryOptions.
	Now func() int64
}

// Limiter decides bills. Have one per process; it is safe for concurrent use.
type Limiter struct {
	store     Store
	memory    *Memory // store, if it is one: the usual charge then needs little of a bill, or none if nobody observes
	fallback  fallback
	observer  Observer
	batches   batchObserver // observer, if it is one
	maxBill   int
	closed    atomic.Bool
	bills     sync.Pool
	closeOnce sync.Once
	closeErr  error
	base      time.Time // durations count from it: half the price of two readings of the date
}

// New returns a Limiter. No options there are today are refused; the error is for
// those to come.
func New(o Options) (*Limiter, error) {
	l := &Limiter{store: o.Store, observer: o.Observer, base: time.Now()}
	if l.store == nil {
		l.store = NewMemory(MemoryOptions{})
	}
	l.memory, _ = l.store.(*Memory)
	l.batches, _ = o.Observer.(batchObserver)
	caps := l.store.Caps()
	l.maxBill = algo.MaxCharges
	if caps.MaxCharges > 0 {
		l.maxBill = min(algo.MaxCharges, caps.MaxCharges)
	}
	l.fallback.instances, l.fallback.now = o.Instances, o.Now
	l.fallback.debts.store, l.fallback.debts.owed = l.store, l.fallback.owed
	l.bills.New = func() any { return &pooled{} }
	return l, nil
}

// pooled is a bill that is used again, with room for the usual number of charges.
type pooled struct {
	bill  Bill
	bills []*Bill
	room  [4]Charge
}

// Allow charges 1 on key under each of limits, all or none.
func (l *Limiter) Allow(ctx context.Context, key string, limits ...Limit) (d Decision, err error) {
	if len(limits) == 1 && l.direct(ctx) && l.memory.takeUsual(&d, key, 1, &limits[0]) {
		return d, nil
	}
	return l.AllowN(ctx, key, 1, limits...)
}

// AllowN charges n on key under each of limits, all or none.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64, limits ...Limit) (d Decision, err error) {
	if len(limits) == 1 && l.direct(ctx) && l.memory.takeUsual(&d, key, n, &limits[0]) {
		return d, nil
	}
	p := l.bills.Get().(*pooled)
	p.bill.Verb, p.bill.MaxWait = algo.Take, 0
	p.bill.Charges = p.room[:0]
	for i := range limits {
		p.bill.Charges = append(p.bill.Charges, Charge{Key: key, Limit: limits[i], Cost: n})
	}
	return l.decidePooled(ctx, p)
}

// direct reports whether the usual charge may go to memory without a bill.
func (l *Limiter) direct(ctx context.Context) bool {
	return l.memory != nil && l.observer == nil && !l.closed.Load() && ctx.Err() == nil
}

// Take decides the charges together: all are debited or none. The receipts are
// not kept; use Decide for charges that may be refunded.
func (l *Limiter) Take(ctx context.Context, charges ...Charge) (Decision, error) {
	return l.once(ctx, algo.Take, charges)
}

// Peek answers as Take would and debits nothing.
func (l *Limiter) Peek(ctx context.Context, charges ...Charge) (Decision, error) {
	return l.once(ctx, algo.Peek, charges)
}

func (l *Limiter) once(ctx context.Context, v algo.Verb, charges []Charge) (Decision, error) {
	p := l.bills.Get().(*pooled)
	p.bill.Verb, p.bill.MaxWait = v, 0
	p.bill.Charges = append(p.room[:0], charges...)
	return l.decidePooled(ctx, p)
}

func (l *Limiter) decidePooled(ctx context.Context, p *pooled) (Decision, error) {
	p.bill.alone[0] = &p.bill
	err := l.decide(ctx, p.bill.alone[:])
	d := p.bill.Decision
	clear(p.bill.Charges) // keep no caller's key
	p.bill.Err = nil
	l.bills.Put(p)
	return d, err
}

// Decide decides many bills, each by itself, and writes the answers into them.
// The error is the first bill's *InputError (nothing of any bill is then
// charged), a dead context's (a bill that was on its way may have been charged:
// its Err says so), or ErrClosed; a store failure is no error but the answer each
// limit carries, with the cause in Bill.Err.
func (l *Limiter) Decide(ctx context.Context, bills ...*Bill) error {
	// The list is copied to one that is kept, or to the bill itself, because what is
	// handed to a Store escapes: the caller's own would be an allocation at every call.
	if len(bills) == 1 {
		b := bills[0]
		b.alone[0] = b
		return l.decide(ctx, b.alone[:])
	}
	p := l.bills.Get().(*pooled)
	p.bills = append(p.bills[:0], bills...)
	err := l.decide(ctx, p.bills)
	clear(p.bills)
	l.bills.Put(p)
	return err
}

// decide is Decide with a list that is l's to change.
func (l *Limiter) decide(ctx context.Context, bills []*Bill) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, b := range bills {
		if l.memory != nil && b.short() {
			continue
		}
		if err := b.prepare(); err != nil {
			return err
		}
		if len(b.Charges) > l.maxBill {
			return &InputError{Field: "charges", Problem: "more charges than this store decides at once"}
		}
	}
	var began time.Duration
	if l.observer != nil {
		began = time.Since(l.base)
	}
	l.store.Apply(ctx, bills)
	var took time.Duration
	if l.observer != nil {
		took = time.Since(l.base) - began
	}
	var dead error
	told := bills
	for i, b := range bills {
		if b.Err != nil {
			if ctx.Err() != nil && canceled(b.Err) { // nobody waits for an answer: no limit states one for this
				if dead == nil {
					dead, told = ctx.Err(), bills[:i]
				}
				continue
			}
			l.fallback.answer(b)
		}
		if !b.Allowed && b.Verb == algo.Take {
			b.GiveID()
		}
		if dead != nil {
			told = append(told, b)
		}
	}
	switch {
	case l.observer == nil:
	case l.batches != nil && len(told) > 1:
		l.batches.ObserveAll(ctx, told, took)
	default:
		for _, b := range told {
			l.observer.Observe(ctx, Event{Bill: b, Elapsed: took})
		}
	}
	return dead
}

// canceled reports whether a store gave a bill up because its caller did.
func canceled(err error) bool {
	var se *StoreError
	return errors.As(err, &se) && se.Kind == "canceled"
}

// Wait takes the charges, sleeping until they fit. Buckets are charged ahead at
// once, so that callers are served in order; other algorithms ask again when
// their retry time has come. It returns the decision and ctx's error if ctx
// ended first (what was charged ahead is then refunded), or a denial at once if
// the charges can never fit or would not fit before ctx's deadline. A block and the
// outage of a closed limit are sat out.
func (l *Limiter) Wait(ctx context.Context, charges ...Charge) (Decision, error) {
	bill := Bill{Charges: append([]Charge(nil), charges...)}
	err := l.WaitBill(ctx, &bill)
	return bill.Decision, err
}

// WaitBill is Wait for a bill that may be given back (see Undo), by who is let through
// and does not go on. It sets the bill's Verb and MaxWait, and takes its NoReceipts
// back: who waits in vain has to have some. The answer is the bill's Decision; Each
// tells of charges that fitted too late as they were.
func (l *Limiter) WaitBill(ctx context.Context, b *Bill) error {
	b.Verb, b.NoReceipts = algo.Take, false
	for {
		b.MaxWait = algo.MaxWait * time.Microsecond
		if deadline, ok := ctx.Deadline(); ok {
			b.MaxWait = min(b.MaxWait, max(0, time.Until(deadline)))
		}
		if err := l.Decide(ctx, b); err != nil {
			return err
		}
		if b.Allowed && b.Delay > b.MaxWait { // a leaky bucket's queue is longer than there is time
			late := b.Delay - b.MaxWait
			err := l.Undo(ctx, b)
			b.Allowed, b.Reason, b.RetryAfter, b.Delay = false, Limited, late, 0
			return err
		}
		if b.Allowed {
			return l.Hold(ctx, b)
		}
		if b.RetryAfter == Never || b.RetryAfter > b.MaxWait || b.final() {
			return nil
		}
		if err := sleep(ctx, b.RetryAfter); err != nil {
			return err
		}
	}
}

// final reports whether a denied bill of Wait cannot fit before its time is up, whatever
// decided it: a bucket was asked for all the time there is. Not final is a block, which
// ends, a part of a limit, which grows, and a closed limit, whose store comes back.
func (b *Bill) final() bool {
	for i := range b.Each {
		d := &b.Each[i]
		if d.Allowed || !b.guarded(i) || !b.Charges[i].Limit.kind.Bucket() {
			continue
		}
		if d.Reason != Blocked && d.Reason != FailedClosed && b.balances[b.entry[i]].Again == 0 {
			return true
		}
	}
	return false
}

// Hold sits out the delay of an admitted bill. If ctx ends first, what the bill
// was charged is given back and ctx's error returned: who does not come through
// has used nothing.
func (l *Limiter) Hold(ctx context.Context, b *Bill) error {
	if b.Delay <= 0 {
		return nil
	}
	if err := sleep(ctx, b.Delay); err != nil {
		return errors.Join(err, l.Undo(ctx, b))
	}
	return nil
}

// Undo gives back what a decided bill was charged, as Refund does, for a caller
// who did not come through after all. The end of ctx does not stop it. What this
// instance admitted without the store is given back here, and so not owed there.
func (l *Limiter) Undo(ctx context.Context, b *Bill) error {
	if b.Err != nil {
		l.fallback.undo(b)
		return nil
	}
	owed := make([]Charge, 0, len(b.Charges))
	for i := range b.Charges {
		if c := b.Charges[i]; c.Receipt.ID != 0 {
			c.Cost, c.Peek, c.Trial = 0, false, 0 // all of it, by itself
			owed = append(owed, c)
		}
	}
	if len(owed) == 0 {
		return nil
	}
	err := l.Refund(context.WithoutCancel(ctx), owed...)
	if err == nil {
		for i := range b.Charges {
			b.Charges[i].Receipt = Receipt{} // once
		}
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	over := time.Now().Add(d)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		if !time.Now().Before(over) { // what fits just to the deadline fits
			return nil
		}
		return ctx.Err()
	}
}

// Refund gives back what the charges' receipts still owe, each receipt once,
// and writes what came back into Receipt.Refunded. Charges without a receipt
// are an *InputError, and so is a receipt of another balance; a spent or stale one
// refunds 0.
func (l *Limiter) Refund(ctx context.Context, charges ...Charge) error {
	bill := Bill{Verb: algo.Refund, Charges: charges}
	for i := range charges {
		r := &charges[i].Receipt
		r.Refunded = 0
		switch {
		case charges[i].Limit.unlimited:
		case r.ID == 0:
			return chargeError(i, "receipt", "is missing; Decide writes it when it debits")
		case r.For != charges[i].balanceHash():
			return chargeError(i, "receipt", "was written for another key, limit or space")
		}
	}
	return l.command(ctx, &bill)
}

// Reset forgets the charges' balances, blocks included, and what this instance
// admitted on them without the store.
func (l *Limiter) Reset(ctx context.Context, charges ...Charge) error {
	b := &Bill{Verb: algo.Reset, Charges: charges}
	err := l.command(ctx, b)
	if err == nil && l.memory == nil {
		l.fallback.ask(b)
	}
	return err
}

// Block refuses everything on the charges' balances for d; 0 lifts a block. The
// balances themselves go on as they are.
func (l *Limiter) Block(ctx context.Context, d time.Duration, charges ...Charge) error {
	return l.command(ctx, &Bill{Verb: algo.Block, BlockFor: d, Charges: charges})
}

// command applies a bill that has no answer but done, so that a store failure
// is the caller's to know.
func (l *Limiter) command(ctx context.Context, b *Bill) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.prepare(); err != nil {
		return err
	}
	if !l.store.Caps().Can(b.Verb) {
		return &StoreError{Kind: "unsupported", Err: errors.New("this store cannot " + b.Verb.String())}
	}
	l.store.Apply(ctx, []*Bill{b})
	return b.Err
}

// Debts returns how many units this Limiter has admitted without its store and
// will still debit there, has debited since, and has given up. See docs/failure.md.
func (l *Limiter) Debts() (owed, settled, dropped int64) { return l.fallback.debts.counts() }

// Close closes the store. Decisions in flight are answered.
func (l *Limiter) Close() error {
	l.closeOnce.Do(func() {
		l.closed.Store(true)
		l.fallback.debts.close()
		l.closeErr = l.store.Close() // the fallback's memory has nothing to close, and who is in flight may need it
	})
	return l.closeErr
}
