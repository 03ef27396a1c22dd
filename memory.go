package weir

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/algo"
)

// The memory store keeps a balance in 32 bytes: a keyed 64-bit print of whose
// it is and three words of state. There is no key, no pointer and no sweeper.
//
//	shard ─ mutex ─ slots  │print│w0 w1 w2│print│w0 w1 w2│…   two to a cache line
//	                        w0: the microsecond at which the balance is idle,
//	                            that is as if never used, above 12 bits of state
//
// A balance that is idle is the same as none, so inserts claim idle slots they
// pass over, and a shard that fills up is rebuilt without them, as large as what
// is live wants. At the bound in bytes the sixth nearest to idle gives
// way as well: a balance that is nearly full again forgets little, a drained one
// would let its caller start anew. Maps of pointers were rejected for what the
// garbage collector makes of ten million of them, and keys for their size; two
// keys share a print once in 2^64 pairs, under a seed that callers cannot know.
//
// Locks: a bill locks its shards in ascending order, so bills cannot wait for
// each other in a circle. Nothing under a lock reads the clock or calls out, and
// what allocates there is growth: of a table, a log, a ledger, the blocks.

// MemoryOptions configures NewMemory.
type MemoryOptions struct {
	// MaxBytes bounds what balances, sliding logs, notes on refunds and blocks may
	// take together, 256 MiB if 0; at least 1 MiB. Only where blocks fill it may
	// logs that are in use come on top, by less than half of it.
	MaxBytes int64
	// Now replaces the clock in tests and simulations: microseconds since the
	// Unix epoch. Nil is the wall clock at the start plus monotonic time since.
	Now func() int64
	// OneLock keeps all balances under one lock, which is cheaper where one
	// goroutine decides, as in simulations. MaxBytes is then used less exactly.
	OneLock bool
}

// Memory is a Store in this process. It is safe for concurrent use.
type Memory struct {
	clock
	seed   maphash.Seed
	shift  uint
	shards []shard
	tables []table // of the shards, for near
	// counters outside the hot path
	evicted atomic.Int64
	stepped atomic.Int64
}

const (
	shardBits   = 9
	defaultRoom = 256 << 20
	leastRoom   = 1 << 20
	leastShard  = 512 << 10 // room for half a table and the longest log
)

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultRoom
	}
	width := uint(shardBits)
	if o.OneLock {
		width = 0
	}
	o.MaxBytes = max(o.MaxBytes, leastRoom)
	for width > 0 && o.MaxBytes>>width < leastShard {
		width--
	}
	room := o.MaxBytes >> width
	m := &Memory{clock: newClock(o.Now), seed: maphash.MakeSeed(), shift: 64 - width}
	m.shards, m.tables = make([]shard, 1<<width), make([]table, 1<<width)
	for i := range m.shards {
		m.shards[i].init(room, &m.evicted, &m.tables[i])
	}
	return m
}

// clock never steps: it is the wall clock at the start plus monotonic time since,
// which is also cheaper to read than the wall clock.
type clock struct {
	base    time.Time
	start   int64 // base in microseconds since the epoch
	instead func() int64
}

func newClock(instead func() int64) clock {
	base := time.Now()
	return clock{base, base.UnixMicro(), instead}
}

func (c *clock) now() int64 {
	if c.instead != nil {
		return c.instead()
	}
	return c.wall()
}

func (c *clock) wall() int64 { return c.start + int64(time.Since(c.base)/time.Microsecond) }

// Caps implements Store.
func (m *Memory) Caps() Caps {
	return Caps{
		Source: "memory", AcrossKeys: true, MaxCharges: algo.MaxCharges,
		Verbs: []algo.Verb{algo.Take, algo.Peek, algo.Refund, algo.Reset, algo.Block},
	}
}

// Close implements Store. There is nothing to close.
func (m *Memory) Close() error { return nil }

// MemoryStats counts what a Memory holds.
type MemoryStats struct {
	Balances int   // slots in use, idle ones not yet reclaimed included
	Bytes    int64 // taken by balances
	Evicted  int64 // live balances that gave way at the bound
	Stepped  int64 // balances found further ahead of the clock than MaxSkew
}

// Stats walks the shards and counts.
func (m *Memory) Stats() MemoryStats {
	s := MemoryStats{Evicted: m.evicted.Load(), Stepped: m.stepped.Load()}
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		s.Balances += sh.used
		s.Bytes += sh.bytes()
		sh.mu.Unlock()
	}
	return s
}

// Apply implements Store. ctx is not used: memory does not wait. The clock is
// read once for all bills: a reading costs as much as half a decision.
func (m *Memory) Apply(_ context.Context, bills []*Bill) {
	m.fetch(bills)
	now := m.now()
	for _, b := range bills {
		switch {
		case b.Verb > algo.Peek:
			m.command(b)
			continue
		case b.brief:
			if m.takeBrief(b, now) {
				continue
			}
			if b.Err = b.prepare(); b.Err != nil { // cannot be: short looked
				continue
			}
			m.applyOne(b, &b.balances[0], now)
		case len(b.balances) == 1 && b.balances[0].Trial == 0:
			m.applyOne(b, &b.balances[0], now)
		case len(b.balances) > 0:
			m.applyAll(b, now)
		}
		b.Settle("memory")
	}
}

// applyOne decides the usual bill: one balance, one shard.
func (m *Memory) applyOne(b *Bill, bal *Balance, now int64) {
	print := b.print // fetch wrote it
	s := m.shard(print)
	wait := int64(b.MaxWait / time.Microsecond)
	s.mu.Lock()
	at := s.find(print)
	s.judge(at, print, now, wait, bal)
	if b.Verb == algo.Take && bal.Cost != 0 { // below 0 is a sum too large to be one
		if bal.View.Stepped {
			at = s.stepBack(at, print, bal)
			m.stepped.Add(1)
		}
		if bal.Fits {
			s.debit(at, print, now, bal)
		}
	}
	s.mu.Unlock()
}

// applyAll decides a bill over several balances: judge all, then debit all.
func (m *Memory) applyAll(b *Bill, now int64) {
	var room [8]uint64
	var places [algo.MaxCharges]int
	prints := room[:0]
	if len(b.balances) > len(room) {
		prints = make([]uint64, 0, algo.MaxCharges)
	}
	key, hash := "", uint64(0) // charges of one bill often share a key
	for i := range b.balances {
		c := b.balances[i].Charge
		if c.Key != key {
			key, hash = c.Key, maphash.String(m.seed, c.Key)
		}
		prints = append(prints, m.printUnder(hash, c.Space, &c.Limit))
	}
	wait := int64(b.MaxWait / time.Microsecond)
	locked := m.lock(prints)
	for i, print := range prints { // apart from judging, so that the waits for memory overlap
		places[i] = m.shard(print).find(print)
	}
	refused, culprit := 0, -1
	for i := range b.balances {
		bal := &b.balances[i]
		if bal.Trial != 0 {
			continue
		}
		s := m.shard(prints[i])
		s.judge(places[i], prints[i], now, wait, bal)
		if !bal.Fits && bal.Cost != 0 {
			refused++
			culprit = i
		}
	}
	take := b.Verb == algo.Take
	for i := range b.balances {
		bal := &b.balances[i]
		s := m.shard(prints[i])
		if bal.Trial != 0 || !take || bal.Cost == 0 {
			continue
		}
		at := s.still(places[i], prints[i])
		if bal.View.Stepped {
			at = s.stepBack(at, prints[i], bal)
			m.stepped.Add(1)
		}
		if refused == 0 {
			s.debit(at, prints[i], now, bal)
		}
	}
	for i := range b.balances { // trials, after the verdict
		bal := &b.balances[i]
		if bal.Trial == 0 {
			continue
		}
		s := m.shard(prints[i])
		at := s.find(prints[i])
		s.judge(at, prints[i], now, wait, bal)
		if !take || bal.Cost == 0 {
			continue
		}
		if bal.View.Stepped {
			at = s.stepBack(at, prints[i], bal)
			m.stepped.Add(1)
		}
		if bal.Fits && (refused == 0 || refused == 1 && int(bal.Trial)-1 == culprit) {
			s.debit(at, prints[i], now, bal)
		}
	}
	m.unlock(locked)
}

// command carries out the verbs that have no answer but done.
func (m *Memory) command(b *Bill) {
	now := m.now()
	for i := range b.Charges {
		c := &b.Charges[i]
		if c.Limit.unlimited {
			continue
		}
		print := m.printOf(c)
		s := m.shard(print)
		s.mu.Lock()
		switch b.Verb {
		case algo.Refund:
			c.Receipt.Refunded = s.refund(print, now, c)
		case algo.Reset:
			s.forget(print, now)
		case algo.Block:
			s.block(print, now, int64(b.BlockFor/time.Microsecond))
		}
		s.mu.Unlock()
	}
}

func (m *Memory) shard(print uint64) *shard { return &m.shards[print>>m.shift] }

// locks is a set of shards as a bit map: iterating it is the ascending order.
type locks [1 << shardBits / 64]uint64

func (m *Memory) lock(prints []uint64) (set locks) {
	if m.shift == 64 {
		m.shards[0].mu.Lock()
		return set
	}
	for _, p := range prints {
		i := p >> m.shift
		set[i/64] |= 1 << (i % 64)
	}
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			m.shards[w*64+bits.TrailingZeros64(word)].mu.Lock()
		}
	}
	return set
}

func (m *Memory) unlock(set locks) {
	if m.shift == 64 {
		m.shards[0].mu.Unlock()
		return
	}
	for w, word := range set {
		for ; word != 0; word &= word - 1 {
			m.shards[w*64+bits.TrailingZeros64(word)].mu.Unlock()
		}
	}
}

func (m *Memory) printOf(c *Charge) uint64 { return m.print(c.Key, c.Space, &c.Limit) }

// print is whose balance a charge falls on: its space, key, limit name,
// algorithm and period. The high bits choose the shard, the low bits the slot.
func (m *Memory) print(key, space string, l *Limit) uint64 {
	return m.printUnder(maphash.String(m.seed, key), space, l)
}

// printUnder is print for who has the hash of the key.
func (m *Memory) printUnder(hash uint64, space string, l *Limit) uint64 {
	return max(1, m.suffix(space, l)^hash) // 0 marks an empty slot
}

// suffix is what a print has of all but the key.
func (m *Memory) suffix(space string, l *Limit) uint64 {
	id := uint64(l.period)<<8 | uint64(l.kind)<<4 | uint64(l.unit)
	if l.name != "" {
		id += bits.RotateLeft64(maphash.String(m.seed, l.name), 21)
	}
	if space != "" {
		id += bits.RotateLeft64(maphash.String(m.seed, space), 42)
	}
	if l.zone != nil {
		id += bits.RotateLeft64(maphash.String(m.seed, l.zone.name), 11)
	}
	// A multiplication by an odd number and folding spread id over all bits;
	// it is injective, so limits of one key never share a print.
	id *= 0x9E3779B97F4A7C15
	return id ^ id>>32
}
