// Package denycache answers refused bills again without asking the store.
//
// A bill that was refused stays refused until its retry time, whatever others
// take meanwhile: takes only push that time further. So the answer may be given
// from here until then, and a flood of refusals costs the store nothing. In
// `allowed` this is exact; `retry_after` is then a lower and `remaining` an upper
// bound, since what others took is not seen.
//
// What could make a refused bill pass earlier is a refund, a reset, a lifted
// block, another limit, or a loan that comes back (layer/lease). Another limit is
// another entry. The verbs void the entries of their balances when they pass through
// this layer. When they pass through another process, and when a loan comes back or
// the balance's limit was changed, of which this layer is not told, an entry lives
// for at most a second (see maxAge).
//
// An entry counts from the moment before the bill was sent: the store's clock
// was read later, so the entry ends before the promise does. It is made only of
// the store's own `limited` and `too_large`, never of an answer that a limit
// states for a failure, and never of a bill with a try, which may be debited
// beside a refusal.
//
//	bill ─ two keyed hashes ─ shard ─ 4 entries of a set ─ hit: answer
//	                                                     └ miss: store, and keep a refusal
//
// Lock rule: a shard's mutex guards its sets; nothing is called while it is held.
package denycache

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

const (
	maxAge     = time.Second
	source     = "deny_cache"
	shardCount = 64
	ways       = 4
	eras       = 4096 // counters that void entries, by balance

	defaultEntries = 16384
)

// Options configures New. The zero value is right for production.
type Options struct {
	// Entries bounds how many refusals are kept, 16,384 if 0; about 200 bytes
	// each for bills of one charge.
	Entries int
	// Now replaces the monotonic clock in tests.
	Now func() time.Duration
}

// Cache is a weir.Store in front of another. It is safe for concurrent use.
type Cache struct {
	store  weir.Store
	near   Near // store, if it is one
	now    func() time.Duration
	seed   maphash.Seed
	shards [shardCount]shard
	sets   uint64 // per shard
	eras   [eras]atomic.Uint32
	kept   atomic.Int64 // entries ever kept: 0 spares the look-up
	hits   atomic.Int64
}

type shard struct {
	mu   sync.Mutex
	sets [][ways]entry
	_    [32]byte
}

// entry is a refusal. The zero entry is none.
type entry struct {
	print   print
	from    time.Duration // before the bill was sent
	until   time.Duration
	binding uint8
	each    []weir.Decision
	era     uint64 // of the bill's balances, before it was sent
}

// Near is a store that answers some bills from what it holds. Those are asked of it
// first: what was admitted so needs none of what is noted here of a bill that goes
// further.
type Near interface {
	// Answer answers b without asking further, if it can, and reports whether it did.
	Answer(b *weir.Bill) bool
	// Ask is Apply for bills that Answer did not answer.
	Ask(ctx context.Context, bills []*weir.Bill)
}

// print identifies a bill: 128 bits under a seed that callers cannot know.
type print struct{ a, b uint64 }

// New returns a cache in front of store, which the cache closes.
func New(store weir.Store, o Options) *Cache {
	if o.Entries <= 0 {
		o.Entries = defaultEntries
	}
	if o.Now == nil {
		base := time.Now()
		o.Now = func() time.Duration { return time.Since(base) }
	}
	c := &Cache{store: store, now: o.Now, seed: maphash.MakeSeed()}
	c.near, _ = store.(Near)
	c.sets = uint64(max(1, o.Entries/(shardCount*ways)))
	for i := range c.shards {
		c.shards[i].sets = make([][ways]entry, c.sets)
	}
	return c
}

// Caps implements weir.Store.
func (c *Cache) Caps() weir.Caps { return c.store.Caps() }

// Close implements weir.Store.
func (c *Cache) Close() error { return c.store.Close() }

// Hits returns how many bills were answered from the cache.
func (c *Cache) Hits() int64 { return c.hits.Load() }

// Clear voids every entry. A reload of the policy calls it.
func (c *Cache) Clear() {
	for i := range c.eras {
		c.eras[i].Add(1)
	}
}

// Apply implements weir.Store.
func (c *Cache) Apply(ctx context.Context, bills []*weir.Bill) {
	if len(bills) == 1 {
		c.applyOne(ctx, bills)
		return
	}
	left := make([]*weir.Bill, 0, len(bills))
	for _, b := range bills {
		if !c.answers(b) {
			left = append(left, b)
		}
	}
	if len(left) > 0 {
		c.ask(ctx, left)
	}
}

func (c *Cache) applyOne(ctx context.Context, bills []*weir.Bill) {
	if !c.answers(bills[0]) {
		c.ask(ctx, bills)
	}
}

// answers answers b without the store, if that can be.
func (c *Cache) answers(b *weir.Bill) bool {
	return c.answer(b) || c.near != nil && c.near.Answer(b)
}

// ask passes bills on and keeps what was refused.
func (c *Cache) ask(ctx context.Context, bills []*weir.Bill) {
	var room [4]uint64
	before := room[:0]
	from := c.now()
	for _, b := range bills {
		before = append(before, c.era(b))
	}
	if c.near != nil {
		c.near.Ask(ctx, bills)
	} else {
		c.store.Apply(ctx, bills)
	}
	for i, b := range bills {
		switch {
		case b.Verb > algo.Peek:
			c.void(b)
		case b.Err == nil && !b.Allowed && (b.Reason == weir.Limited || b.Reason == weir.TooLarge) && cacheable(b) && !waits(b):
			c.keep(b, from, before[i])
		}
	}
}

// cacheable reports whether a refusal of b would hold until its retry time.
func cacheable(b *weir.Bill) bool {
	if b.Verb != algo.Take {
		return false
	}
	for i := range b.Charges {
		if b.Charges[i].Trial > 0 {
			return false
		}
	}
	return true
}

// waits reports whether b's caller waits for a share of a limit to grow, of which an
// entry could not tell: weir.Limiter.Wait would take its refusal for final.
func waits(b *weir.Bill) bool {
	if b.MaxWait > 0 {
		for i := range b.Balances() {
			if b.Balances()[i].Again > 0 {
				return true
			}
		}
	}
	return false
}

// answer answers b from the cache, if it can.
func (c *Cache) answer(b *weir.Bill) bool {
	if c.kept.Load() == 0 || !cacheable(b) {
		return false
	}
	p := c.print(b)
	now := c.now()
	s, set := c.place(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := find(&s.sets[set], p)
	if e == nil || now >= e.until || len(e.each) != len(b.Charges) || e.era != c.era(b) {
		return false
	}
	age := (now - e.from).Truncate(time.Microsecond)
	for i := range e.each {
		d := &b.Each[i]
		*d = e.each[i]
		d.Source = source
		if d.RetryAfter > 0 {
			d.RetryAfter = max(d.RetryAfter-age, time.Microsecond)
		}
		d.ResetAfter = max(d.ResetAfter-age, 0)
	}
	b.Decision = b.Each[e.binding]
	b.Binding = e.binding
	c.hits.Add(1)
	return true
}

// keep stores a refusal, in place of the entry of its set that ends first. It
// ends with the first of the refused charges to clear.
func (c *Cache) keep(b *weir.Bill, from time.Duration, era uint64) {
	life := maxAge
	for i := range b.Each {
		d := &b.Each[i]
		if !d.Allowed && d.RetryAfter != weir.Never && b.Charges[i].Trial == 0 {
			life = min(life, d.RetryAfter)
		}
	}
	p := c.print(b)
	s, set := c.place(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	victim := find(&s.sets[set], p)
	if victim == nil {
		victim = &s.sets[set][0]
		for i := range s.sets[set] {
			if other := &s.sets[set][i]; other.until < victim.until {
				victim = other
			}
		}
	}
	// Hits copy under the lock, so the old entry's room is free to be used again.
	each := append(victim.each[:0], b.Each...)
	*victim = entry{print: p, from: from, until: from + life, binding: b.Binding, each: each, era: era}
	c.kept.Add(1)
}

func find(set *[ways]entry, p print) *entry {
	for i := range set {
		if set[i].print == p {
			return &set[i]
		}
	}
	return nil
}

func (c *Cache) place(p print) (s *shard, set uint64) {
	return &c.shards[p.b%shardCount], p.b / shardCount % c.sets
}

// void ends every entry that a balance of b stands in.
func (c *Cache) void(b *weir.Bill) {
	for i := range b.Charges {
		c.eras[c.counter(&b.Charges[i])].Add(1)
	}
}

// era returns the sum of the counters of b's balances: counters only grow, so it
// is the same only if none has moved.
func (c *Cache) era(b *weir.Bill) (sum uint64) {
	for i := range b.Charges {
		sum += uint64(c.eras[c.counter(&b.Charges[i])].Load())
	}
	return sum
}

// counter returns which counter a charge's balance has. Many keys share one:
// voiding an entry too many costs a question to the store.
func (c *Cache) counter(ch *weir.Charge) uint64 { return maphash.String(c.seed, ch.Key) % eras }

// print hashes everything that a bill asks. Limits compare by value, so hashing
// them as comparable values covers algorithm, period, zone, name and burst.
func (c *Cache) print(b *weir.Bill) print {
	p := print{uint64(b.MaxWait), uint64(len(b.Charges))}
	for i := range b.Charges {
		ch := &b.Charges[i]
		key := maphash.String(c.seed, ch.Key)
		p.a = mix(p.a, key, uint64(ch.Cost))
		p.b = mix(p.b, maphash.Comparable(c.seed, ch.Limit), uint64(ch.Trial))
		if ch.Space != "" {
			p.a = mix(p.a, maphash.String(c.seed, ch.Space), 1)
		}
		p.b = mix(p.b, p.a, key)
	}
	if p == (print{}) {
		p.a = 1 // the zero print marks no entry
	}
	return p
}

// mix folds x and y into h.
func mix(h, x, y uint64) uint64 {
	h ^= x
	h *= 0x9E3779B97F4A7C15
	h ^= h>>29 ^ y
	h *= 0xBF58476D1CE4E5B9
	return h ^ h>>32
}
