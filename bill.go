package weir

import (
	"strconv"
	"time"

	"github.com/weirhq/weir/algo"
)

// Charge is a key, a limit and a cost. Make one with Limit.Charge.
type Charge struct {
	Key   string // not kept after the call: it may live in a reused buffer
	Limit Limit
	Cost  int64 // units; 0 without Peek is an *InputError, so that a forgotten cost is no free pass
	Peek  bool  // with Cost 0: report the balance, admit whatever else

	// Trial makes the charge one that never decides: 0 is enforced, -1 is
	// judged beside the bill (shadow), i+1 in place of charge i (try). It is
	// judged in the same step after the verdict, and debited if it fits and
	// every enforced charge it does not stand in for is admitted.
	Trial int8

	Space string // "" is the callers' own; each rule, RLS domain and CL.THROTTLE has one
	Group string // charges of one group may share a cluster slot; "" means Key

	// Receipt is written when the charge is debited, and forgotten when the bill
	// is decided anew. Refund wants it back.
	Receipt Receipt
}

// Charge returns a charge of 1 on key.
func (l Limit) Charge(key string) Charge { return Charge{Key: key, Limit: l, Cost: 1} }

// Receipt proves a debit to Refund. It is a plain value: it may be stored, sent
// elsewhere and used by another process on the same store. It is good once, and
// only with the key, limit and space it was written for: Refund refuses it with
// others, so that a mistake credits nobody else's balance. It is no protection
// against who makes receipts up.
type Receipt struct {
	ID    uint64 // random; 0 is no receipt
	For   uint64 // what it was written for, the balance, as a hash that is the same in every process
	Cost  int64  // units debited
	At    int64  // store time of the debit, microseconds since the epoch
	Due   int64  // buckets: idle again after this debit; windows: start of the period
	Phase int64  // buckets: fraction of Due

	// Refunded is what the last Refund with this receipt gave back.
	Refunded int64
}

// Bill is a set of charges decided together: all are debited or none. It may be
// reused, and used by one goroutine at a time.
type Bill struct {
	Verb    algo.Verb
	Charges []Charge

	// MaxWait lets bucket limits admit what fits within it; Delay then says how
	// long to wait. At most algo.MaxWait.
	MaxWait time.Duration

	// NoReceipts leaves out the receipts of what is debited, for who will refund
	// nothing; Undo then gives nothing back, and Balances may be empty: a bill of one
	// usual charge costs a store in memory half of what it does else.
	NoReceipts bool

	// BlockFor is how long Verb Block refuses; 0 lifts a block.
	BlockFor time.Duration

	Each     []Decision // one per charge, written by Decide
	Decision            // the bill's
	Err      error      // why the store did not decide; Decision is then the stated answer
	Note     any        // for Observers: caller, door
	ID       [16]byte   // names a refusal of a take, written by Decide; zero where the bill was admitted

	balances []Balance // prepared for the store
	entry    []int8    // charge → index in balances; -1 for unlimited
	alone    [1]*Bill  // itself, as the list that a store is handed
	brief    bool      // readied by short and not by prepare
	print    uint64    // of the balance, where there is one, written by memory
}

// Balances returns what the bill touches. It is for stores, during Apply.
func (b *Bill) Balances() []Balance { return b.balances }

// Check returns the *InputError that Decide would return for b, or nil. It is
// for those who decide many bills and want one bad bill not to refuse them all.
func (b *Bill) Check() error { return b.prepare() }

// prepare checks the bill and fills balances. It names what is wrong as a path.
func (b *Bill) prepare() error {
	b.Decision, b.Err, b.ID, b.brief = Decision{}, nil, [16]byte{}, false
	if b.Verb <= algo.Peek { // the other verbs are told by receipts what to do
		for i := range b.Charges {
			if r := &b.Charges[i].Receipt; r.ID != 0 { // of what the bill was used for before
				*r = Receipt{}
			}
		}
	}
	if err := b.check(); err != nil {
		return err
	}
	n := len(b.Charges)
	b.Each = resize(b.Each, n)
	b.entry = resize(b.entry, n)
	b.balances = b.balances[:0]
	if cap(b.balances) < n {
		b.balances = make([]Balance, 0, n)
	}
	for i := range b.Charges {
		if err := b.enter(i); err != nil {
			return err
		}
	}
	for i := range b.balances {
		bal := &b.balances[i]
		bal.Measure()
		if bal.Trial > 0 { // from charge index to balance index
			if bal.Trial = b.entry[bal.Trial-1] + 1; bal.Trial == 0 {
				bal.Trial = -1 // in place of an unlimited charge: beside the bill
			}
		}
	}
	return nil
}

// short readies a take of one usual charge that wants no receipt, for a store in
// memory, and reports whether the bill is one. It needs no Balance, and nothing is
// wrong with it.
func (b *Bill) short() bool {
	if !b.NoReceipts || b.Verb != algo.Take || len(b.Charges) != 1 || b.MaxWait != 0 || b.BlockFor != 0 {
		return false
	}
	c := &b.Charges[0]
	if c.Trial != 0 || c.Peek || !c.Limit.usual(c.Key, c.Cost) {
		return false
	}
	if c.Receipt.ID != 0 {
		c.Receipt = Receipt{}
	}
	b.Err, b.ID, b.brief = nil, [16]byte{}, true
	b.Each, b.balances = resize(b.Each, 1), b.balances[:0]
	return true
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 4))
	}
	s = s[:n]
	clear(s)
	return s
}

func (b *Bill) check() error {
	switch {
	case len(b.Charges) == 0:
		return &InputError{Field: "charges", Problem: "a bill needs at least one charge"}
	case len(b.Charges) > algo.MaxCharges:
		return &InputError{Field: "charges", Problem: "a bill holds at most 32 charges; this one has " + strconv.Itoa(len(b.Charges))}
	case b.Verb > algo.Repay:
		return &InputError{Field: "verb", Problem: "unknown " + b.Verb.String()}
	case b.MaxWait < 0 || b.MaxWait > algo.MaxWait*time.Microsecond:
		return &InputError{Field: "max_wait", Problem: "must lie between 0 and 366 days"}
	case b.BlockFor < 0 || b.BlockFor > algo.MaxPeriod*time.Microsecond:
		return &InputError{Field: "for", Problem: "must lie between 0 and 366 days"}
	}
	return nil
}

// enter adds charge i to the balance it falls on.
func (b *Bill) enter(i int) error {
	c := &b.Charges[i]
	if c.Key == "" {
		return chargeError(i, "key", "is empty")
	}
	if !c.Limit.sound {
		return chargeError(i, "limit", c.Limit.problem())
	}
	if b.Verb <= algo.Peek {
		switch {
		case c.Cost < 0:
			return chargeError(i, "cost", "must not be negative")
		case c.Cost > algo.MaxCost:
			return chargeError(i, "cost", "is at most 9007199254740991")
		case c.Cost == 0 && !c.Peek:
			return chargeError(i, "cost", "is 0; set Peek to ask without charging")
		case c.Cost > 0 && c.Peek:
			return chargeError(i, "cost", "must be 0 with Peek; use the verb Peek to ask about a cost")
		}
	}
	if b.Verb == algo.Refund && (c.Cost < 0 || c.Cost > algo.MaxCost) {
		return chargeError(i, "cost", "must lie between 0 (all of it) and 9007199254740991")
	}
	if c.Trial < -1 || int(c.Trial) > len(b.Charges) || c.Trial > 0 && b.Charges[c.Trial-1].Trial != 0 {
		return chargeError(i, "trial", "must be 0, -1, or one more than the index of an enforced charge")
	}
	if c.Limit.unlimited {
		b.entry[i] = -1
		return nil
	}
	for j := range b.balances {
		bal := &b.balances[j]
		first := bal.Charge
		if !first.Limit.sameBalance(&c.Limit) || first.Key != c.Key || first.Space != c.Space {
			continue
		}
		if !first.Limit.sameQuota(&c.Limit) {
			return chargeError(i, "limit", "is another limit on the same balance as an earlier charge; give one of them a name")
		}
		if first.Trial != c.Trial {
			continue // a trial is judged by itself, after the verdict
		}
		if bal.Cost >= 0 {
			if bal.Cost += c.Cost; bal.Cost > algo.MaxCost {
				bal.Cost = -1 // a sum that cannot fit
			}
		}
		b.entry[i] = int8(j)
		return nil
	}
	b.entry[i] = int8(len(b.balances))
	b.balances = b.balances[:len(b.balances)+1]
	bal := &b.balances[len(b.balances)-1]
	bal.Charge, bal.Cost, bal.Trial = c, c.Cost, c.Trial
	c.Limit.fill(&bal.Quota)
	bal.Fits, bal.Debited, bal.Delay, bal.Blocked, bal.Again = false, false, 0, 0, 0
	return nil
}

// Settle turns what the store wrote into the bill's balances into decisions.
// Stores call it once a bill without an Err is decided.
func (b *Bill) Settle(source string) {
	b.Allowed = true
	for i := range b.balances {
		bal := &b.balances[i]
		if bal.Trial == 0 && !bal.Fits && bal.Cost != 0 {
			b.Allowed = false
		}
	}
	for i := range b.Charges {
		b.settle(i, source)
	}
	b.bind()
}

// settle writes the decision on charge i.
func (b *Bill) settle(i int, source string) {
	d, c := &b.Each[i], &b.Charges[i]
	if b.entry[i] < 0 {
		*d = Decision{Allowed: true, Source: source, Limit: Unbounded, Remaining: Unbounded}
		return
	}
	bal := &b.balances[b.entry[i]]
	d.Source = source
	d.Limit = bal.Quota.Most()
	d.Allowed = bal.Fits || bal.Cost == 0
	wait := int64(b.MaxWait / time.Microsecond)
	r := bal.Quota.Report(&bal.View, bal.Cost, wait, d.Allowed || bal.Blocked > 0 && bal.fitsUnblocked(wait))
	d.Remaining = r.Remaining
	d.ResetAfter = time.Duration(r.ResetAfter) * time.Microsecond
	d.RetryAfter = time.Duration(r.RetryAfter) * time.Microsecond
	switch {
	case d.Allowed:
	case bal.Again > 0 && (bal.Never || r.RetryAfter == algo.Never):
		d.Reason, d.RetryAfter = Limited, time.Duration(bal.Again)*time.Microsecond
	case bal.Never:
		d.Reason, d.RetryAfter = TooLarge, Never
	default:
		d.Reason = Limited
		if r.RetryAfter == algo.Never {
			d.RetryAfter = Never
		}
	}
	if bal.Blocked > 0 && !d.Allowed {
		d.Remaining = 0
		if d.Reason != TooLarge {
			d.Reason = Blocked
		}
		if d.RetryAfter != Never { // a spent balance may outlast the block
			d.RetryAfter = max(d.RetryAfter, time.Duration(bal.Blocked-bal.View.Now)*time.Microsecond)
		}
	}
	if bal.Debited && c.Cost > 0 {
		d.Delay = time.Duration(bal.Delay) * time.Microsecond
		if !b.NoReceipts {
			bal.receipt(&c.Receipt, c)
		}
	}
}

// bind picks the charge that decided and copies its decision to the bill's.
func (b *Bill) bind() {
	allowed := b.Allowed
	binding, delay := -1, time.Duration(0)
	for i := range b.Each {
		d := &b.Each[i]
		if b.Charges[i].Trial != 0 || !allowed && d.Allowed {
			continue
		}
		delay = max(delay, d.Delay)
		if binding < 0 || binds(allowed, d, &b.Each[binding]) {
			binding = i
		}
	}
	if binding < 0 { // only trials: nothing binds
		b.Decision = Decision{Allowed: true, Source: "none", Limit: Unbounded, Remaining: Unbounded}
		return
	}
	b.Decision = b.Each[binding]
	b.Allowed, b.Binding = allowed, uint8(binding)
	if allowed {
		b.Delay = delay
	}
}

// binds reports whether d decides rather than e, which stands before it.
func binds(allowed bool, d, e *Decision) bool {
	if allowed {
		if d.Remaining == Unbounded {
			return false
		}
		return e.Remaining == Unbounded || d.Remaining < e.Remaining
	}
	if e.RetryAfter == Never {
		return false
	}
	return d.RetryAfter == Never || d.RetryAfter > e.RetryAfter
}
