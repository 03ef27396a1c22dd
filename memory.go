package weir

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/algo"
)

// The memory store keeps a balance in 32 bytes: a keyed print of whose it is, in 62
// bits, with two for the slot's lock, and three words of state. There is no key, no
// pointer and no sweeper.
//
//	shard ─ mutex ─ slots  │id│w0 w1 w2│id│w0 w1 w2│…   two to a cache line
//	                        id: print and lock, see memory_slot.go
//	                        w0: the microsecond at which the balance is idle,
//	                            that is as if never used, above 12 bits of state
//
// A balance that is idle is the same as none, so inserts claim slots they pass over
// that have been idle for a moment, and a shard that fills up is rebuilt without
// them, as large as what is live wants. At the bound in bytes the sixth nearest to
// idle gives way as well: a balance that is nearly full again forgets little, a
// drained one would let its caller start anew. Maps of pointers were rejected for
// what the garbage collector makes of ten million of them, and keys for their size;
// two keys share a print once in 2^62 pairs, under a seed that callers cannot know.
//
// Locks: what is there already is decided by its slots alone, each a lock of its own
// (memory_slot.go). All else is under the shard's mutex, and takes the slots besides;
// a bill locks its shards in ascending order, so bills cannot wait for each other in a
// circle, and who holds a slot without a mutex waits for nothing. Nothing under a lock
// calls out or reads the clock, but for a reset (see shard.forget), and what allocates
// there is growth: of a table, a log, a ledger, the blocks.

// MemoryOptions configures NewMemory.
type MemoryOptions struct {
	// MaxBytes bounds what balances, sliding logs, notes on refunds and blocks may
	// take together, 256 MiB if 0; at least 1 MiB. Only where blocks fill it may
	// logs that are in use come on top, by less than half of it; and each shard keeps
	// eight blocks whatever else there is.
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
			m.decide(b, now)
		case len(b.balances) > 0:
			m.decide(b, now)
		}
		b.Settle("memory")
	}
}

// command carries out the verbs that have no answer but done.
func (m *Memory) command(b *Bill) {
	now := m.now()
	for i := range b.Charges {
		c := &b.Charges[i]
		if c.Limit.unlimited {
			continue
		}
		print := m.print(c)
		s := m.shard(print)
		s.mu.Lock()
		switch b.Verb {
		case algo.Refund:
			c.Receipt.Refunded = s.refund(print, now, c)
		case algo.Reset:
			s.forget(print, c.Limit.kind, m.now)
		case algo.Block:
			s.block(print, now, int64(b.BlockFor/time.Microsecond))
		}
		s.mu.Unlock()
	}
}

func (m *Memory) shard(print uint64) *shard { return &m.shards[print>>m.shift] }
func (m *Memory) table(print uint64) *table { return &m.tables[print>>m.shift] }

// print is whose balance a charge falls on: its space, key, limit name,
// algorithm and period. The high bits choose the shard, the low bits the slot.
func (m *Memory) print(c *Charge) uint64 {
	return printOf(c.Limit.tag^m.space(c.Space), maphash.String(m.seed, c.Key))
}

// printOf joins what a print has of the limit and the space with the hash of the key.
func printOf(suffix, key uint64) uint64 {
	return max(1, (suffix^key)&^flags) // 0 marks an empty slot
}

// space is what a print has of a space: nothing of the callers' own.
func (m *Memory) space(name string) uint64 {
	if name == "" {
		return 0
	}
	return bits.RotateLeft64(maphash.String(m.seed, name), 42)
}
