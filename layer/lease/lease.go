// Package lease lets an instance spend a hot key's units by itself.
//
// One key that everybody asks about costs the store one answer a check. Here an
// instance borrows a block of units: they are debited in the store first, then
// spent from memory, and what is left goes back when the loan's time is up.
//
//	take ─▶ this processor's purse has units of the key ─▶ spend, answer
//	         └ no ─▶ is the key hot? ─ no ─▶ store
//	                  └ yes ─▶ a loan with units left ─▶ fill the purse, spend, answer
//	                            └ none, or not enough ─▶ store   (and the lenders are told)
//	lenders (a few goroutines): borrow before a loan runs out, return what is over
//
// What it costs. Nothing is admitted that was not debited, so over any long time
// exactly the limit is admitted. But units debited in one window may be spent in
// the next, so a window may see as much more as loans were out when it began.
// The store bounds their sum, over all instances, to max_overshoot of the
// capacity, and a loan lasts for at most a tenth of the period, and a second, and
// never beyond its window. Two units are the least that is lent: a limit whose
// bound is below that has no loans. An instance that dies loses what it had
// borrowed; nothing is given twice.
//
// While units are lent, the store and the answers here count them as spent:
// remaining is a lower bound.
//
// A block or a reset ends the loans of its key here, before the caller hears that
// it is done. Other instances do not hear of it: they spend what they hold, for at
// most the second or tenth of a period that a loan lasts, and borrow no more of a
// blocked key. A return from before a reset gives nothing back.
//
// A bill of several balances takes what it can from loans and asks the store for the rest
// (split.go).
//
// Token buckets and the two window counters are lent. A leaky bucket's delay and
// a log's entries are each caller's own.
//
// Lock rule: a shard's mutex guards its accounts and their loans, a purse's mutex
// its slices. A shard's may be taken under a purse's, never the other way round, and
// never two of a kind. Nobody holds either while talking to the store.
package lease

import (
	"context"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Lender is what a store must be able to do.
type Lender interface {
	weir.Store
	// Lend debits up to units on c's balance, if the loans out stay within most,
	// and writes what Return wants back into c.Receipt.
	Lend(ctx context.Context, c *weir.Charge, units, most int64, life time.Duration) (granted int64, until time.Duration, v algo.View, err error)
	// Return ends the loan of c.Receipt and gives units of it back.
	Return(ctx context.Context, c *weir.Charge, units int64) error
}

// Options configures New.
type Options struct {
	// Overshoot bounds the loans out on a key, in millionths of its capacity:
	// 10,000 is 1 %. At least 1.
	Overshoot int64
	// Hot is how many takes in a tenth of a second make a key hot, 32 if 0.
	Hot int
	// Now replaces the monotonic clock in tests and simulations.
	Now func() time.Duration
	// Stepped leaves the lenders' work to Step, for simulations: nothing then
	// happens but at a caller's word.
	Stepped bool
}

const (
	source    = "lease"
	shards    = 64
	accounts  = 64 // per shard: keys watched or lent at a time
	beat      = 100 * time.Millisecond
	longest   = time.Second
	leastLoan = 2

	defaultHot = 32
)

// Leases is a weir.Store in front of a Lender. It is safe for concurrent use.
type Leases struct {
	store     Lender
	overshoot int64
	hot       int
	now       func() time.Duration
	seed      maphash.Seed
	shards    [shards]shard
	purses    []purse
	held      sync.Pool     // of *purse: each processor finds its own again
	handed    atomic.Uint32 // how often a purse was handed to held
	splits    sync.Pool     // of *split
	errands   chan errand   // of the lenders
	stepped   bool
	stop      chan struct{}
	lenders   sync.WaitGroup
	closing   sync.Once
	stats     counters
}

// counters are what the lenders move; what was spent is counted by the purses.
type counters struct {
	borrowed atomic.Int64
	returned atomic.Int64 // given back, and the store heard of it
	ended    atomic.Int64 // given back, whether or not it did
	peak     atomic.Int64
}

// Stats counts units.
type Stats struct {
	Spent    int64 // admitted from loans
	Borrowed int64 // debited for loans
	Returned int64 // given back unspent
	Out      int64 // borrowed, and neither spent nor given back
	Peak     int64 // the most that was out: what one instance may have overshot by
}

type shard struct {
	mu       sync.Mutex
	accounts map[print]*account
	_        [48]byte
}

// print identifies a balance and its limit: 128 bits under a seed that callers
// cannot know.
type print struct{ a, b uint64 }

// New returns leases in front of store, which they close.
func New(store Lender, o Options) *Leases {
	if o.Hot <= 0 {
		o.Hot = defaultHot
	}
	if o.Now == nil {
		base := time.Now()
		o.Now = func() time.Duration { return time.Since(base) }
	}
	l := &Leases{
		store: store, overshoot: max(o.Overshoot, 1), hot: o.Hot, now: o.Now,
		seed: maphash.MakeSeed(), errands: make(chan errand, 1024), stepped: o.Stepped, stop: make(chan struct{}),
	}
	for i := range l.shards {
		l.shards[i].accounts = make(map[print]*account)
	}
	l.purses = make([]purse, 4*runtime.NumCPU())
	if o.Stepped { // what happens is then the same at every run
		l.purses = l.purses[:1]
	}
	l.held.New = func() any { return &l.purses[int(l.handed.Add(1))%len(l.purses)] }
	l.splits.New = func() any { return new(split) }
	if !o.Stepped {
		l.lenders.Go(l.watchTime)
		for range lenders {
			l.lenders.Go(l.lend)
		}
	}
	return l
}

// Caps implements weir.Store.
func (l *Leases) Caps() weir.Caps { return l.store.Caps() }

// Stats returns the counters.
func (l *Leases) Stats() Stats {
	c := &l.stats
	// In this order Out is never too small: units are spent before they are counted
	// as given back.
	returned, ended := c.returned.Load(), c.ended.Load()
	spent := l.spent()
	borrowed := c.borrowed.Load()
	return Stats{Spent: spent, Borrowed: borrowed, Returned: returned, Out: borrowed - spent - ended, Peak: c.peak.Load()}
}

// Close gives back what is lent and closes the store.
func (l *Leases) Close() error {
	l.closing.Do(func() {
		close(l.stop)
		l.lenders.Wait()
		for len(l.errands) > 0 {
			if e := <-l.errands; e.loan != nil { // nobody wants a loan any more
				l.run(e)
			}
		}
		l.collect(true)
	})
	return l.store.Close()
}

// Apply implements weir.Store.
func (l *Leases) Apply(ctx context.Context, bills []*weir.Bill) {
	if len(bills) == 1 {
		if !l.Answer(bills[0]) {
			l.Ask(ctx, bills)
		}
		return
	}
	left := make([]*weir.Bill, 0, len(bills))
	for _, b := range bills {
		if !l.Answer(b) {
			left = append(left, b)
		}
	}
	if len(left) > 0 {
		l.Ask(ctx, left)
	}
}

// heard takes note of what the store did.
func (l *Leases) heard(b *weir.Bill) {
	switch b.Verb {
	case algo.Take:
		l.heed(b)
	case algo.Block, algo.Reset: // whatever came of it: to end a loan early does no harm
		for i := range b.Charges {
			l.recall(&b.Charges[i])
		}
	}
}

// recall ends the loans of c's key under any limit: a command may name its balance
// by another limit than the takes do. Commands are rare, so it looks everywhere.
// The purses come last: they are filled from loans that have not ended.
func (l *Leases) recall(c *weir.Charge) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for _, a := range s.accounts {
			if a.charge.Key == c.Key && a.charge.Space == c.Space {
				a.recall()
			}
		}
		s.mu.Unlock()
	}
	l.empty(func(o *slice) bool { return o.account.charge.Key == c.Key && o.account.charge.Space == c.Space })
}

// lendable returns the balance of a bill of one that a loan could answer, or nil. For
// larger bills see split.
func lendable(b *weir.Bill) *weir.Balance {
	balances := b.Balances()
	if b.Verb != algo.Take || len(balances) != 1 || b.MaxWait != 0 {
		return nil
	}
	if bal := &balances[0]; lends(bal) {
		return bal
	}
	return nil
}

// lends reports whether what is asked of a balance may come from a loan.
func lends(bal *weir.Balance) bool {
	kind := bal.Quota.Kind
	return bal.Trial == 0 && bal.Cost > 0 && !bal.Never && bal.Quota.N != 0 && kind != algo.LeakyBucket && kind != algo.SlidingLog
}

// Answer answers b from what is on loan, if that is enough, and reports whether it
// did.
func (l *Leases) Answer(b *weir.Bill) bool {
	bal := lendable(b)
	if bal == nil {
		return false
	}
	key := maphash.String(l.seed, bal.Charge.Key)
	now := l.now()
	purse := l.held.Get().(*purse)
	purse.mu.Lock()
	o := &purse.slices[l.place(bal, key)]
	spent := o.has(bal, now) || l.fill(o, bal, key, now)
	var running algo.View
	if spent {
		running = o.spend(bal, now)
		purse.spent += bal.Cost
	}
	purse.mu.Unlock()
	l.held.Put(purse)
	if !spent {
		return false
	}
	b.Settle(source)
	if b.NoReceipts {
		return true
	}
	for i := range b.Charges {
		date(&b.Charges[i].Receipt, bal.Quota.Kind, &running)
	}
	return true
}

// place returns which slice is bal's, of whose key the hash is known. A caller is
// often under several limits at once, so the key alone would have them take turns.
func (l *Leases) place(bal *weir.Balance, key uint64) uint64 {
	key ^= uint64(bal.Quota.N)*0x9E3779B97F4A7C15 ^ uint64(bal.Quota.Period)*0xD6E8FEB86659FD93
	if bal.Charge.Space != "" {
		key += maphash.String(l.seed, bal.Charge.Space)
	}
	return (key ^ key>>32) * 0xBF58476D1CE4E5B9 >> 58 // the top six bits
}

// heed takes note of a refusal: a key that is at its limit has
// nothing to lend for a while.
func (l *Leases) heed(b *weir.Bill) {
	if b.Err != nil || b.Allowed {
		return
	}
	bal := lendable(b)
	if bal == nil {
		return
	}
	p := l.print(bal.Charge, maphash.String(l.seed, bal.Charge.Key))
	s := &l.shards[p.b%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.accounts[p]; a != nil {
		a.dry = l.now() + min(max(b.RetryAfter, beat/10), beat)
	}
}

// wish tells the lenders that a key wants a loan. If they are that far behind, the key
// will ask again.
func (l *Leases) wish(p print) {
	select {
	case l.errands <- errand{print: p}:
	default:
		s := &l.shards[p.b%shards]
		s.mu.Lock()
		if a := s.accounts[p]; a != nil {
			a.asked = false
		}
		s.mu.Unlock()
	}
}

// print identifies c's balance and limit, of whose key the hash is known.
func (l *Leases) print(c *weir.Charge, key uint64) print {
	p := print{key, maphash.Comparable(l.seed, c.Limit)}
	if c.Space != "" {
		p.a ^= maphash.String(l.seed, c.Space) * 0x9E3779B97F4A7C15
	}
	p.b = (p.b ^ p.a) * 0xBF58476D1CE4E5B9
	p.b ^= p.b >> 32
	return p
}
