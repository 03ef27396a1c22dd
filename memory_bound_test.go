package weir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/weirhq/weir/algo"
)

// The store's bound in bytes, under floods of everything that it keeps. The short
// form runs in CI; WEIR_KEYS=10000000 is the long one (make flood).

func flood(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("WEIR_KEYS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 60_000
}

// do carries out a verb that has no answer but done.
func (w *world) do(v algo.Verb, d time.Duration, charges ...Charge) {
	w.t.Helper()
	if err := w.Limiter.command(context.Background(), &Bill{Verb: v, BlockFor: d, Charges: charges}); err != nil {
		w.t.Fatal(err)
	}
}

// refundOne charges one on key and gives it back.
func (w *world) refundOne(l Limit, key string) {
	w.t.Helper()
	if b := w.decide(l.Charge(key)); b.Allowed {
		w.do(algo.Refund, 0, b.Charges...)
	}
}

// heap returns the bytes that are live on the heap.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryIsBounded(t *testing.T) {
	keys := flood(t)
	room := int64(max(1, keys/40_000)) << 20
	day := Per(5, 24*time.Hour)
	for name, one := range map[string]func(w *world, i int){
		"distinct keys": func(w *world, i int) { w.decide(day.Charge(fmt.Sprint(i))) },
		"sliding logs":  func(w *world, i int) { w.decide(day.Using(algo.SlidingLog).Charge(fmt.Sprint(i))) },
		"long logs": func(w *world, i int) {
			w.decide(Per(5000, 24*time.Hour).Using(algo.SlidingLog).Charge(fmt.Sprint(i % 300)))
		},
		"blocks": func(w *world, i int) { w.do(algo.Block, time.Hour, day.Charge(fmt.Sprint(i))) },
		"resets": func(w *world, i int) {
			w.decide(day.Charge(fmt.Sprint(i)))
			w.do(algo.Reset, 0, day.Charge(fmt.Sprint(i)))
		},
		"refunds":        func(w *world, i int) { w.refundOne(day, fmt.Sprint(i)) },
		"refunds of one": func(w *world, i int) { w.refundOne(Per(1e9, 24*time.Hour), fmt.Sprint(i%2000)) },
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			w := newWorldOf(t, MemoryOptions{MaxBytes: room})
			for i := range keys {
				w.clock.Add(1)
				one(w, i)
			}
			took := heap() - before
			s := w.memory.Stats()
			t.Logf("%d of %s: %d MiB counted, %d MiB on the heap, of %d; %d evicted", keys, name, s.Bytes>>20, took>>20, room>>20, s.Evicted)
			if s.Bytes > room {
				t.Errorf("%d bytes are counted, over %d", s.Bytes, room)
			}
			// The heap knows of allocations what we reckon.
			if took > room+room/4+1<<20 {
				t.Errorf("%d bytes are on the heap, with a bound of %d", took, room)
			}
			runtime.KeepAlive(w)
		})
	}
}

// No cache line is two shards'.
func TestShardsShareNoLine(t *testing.T) {
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard has %d bytes", size)
	}
}

// TestIdleBalancesLeaveNoGarbage: a table whose balances are mostly idle is used
// again in its place, and those that are live stay as they are.
func TestIdleBalancesLeaveNoGarbage(t *testing.T) {
	for _, pause := range []time.Duration{2 * time.Millisecond, 2 * grace * time.Microsecond} {
		w := newWorldOf(t, MemoryOptions{OneLock: true})
		live, brief := Per(10, 300*24*time.Hour), PerSecond(1000)
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = "key " + strconv.Itoa(i)
		}
		take := func(l Limit, key string) Decision {
			d, err := w.Allow(context.Background(), key, l)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for _, key := range keys[:5] {
			take(live, key)
		}
		at := time.Duration(0)
		flood := func() {
			for _, key := range keys {
				at += pause // the one before is idle
				w.at(at)
				take(brief, key)
			}
		}
		flood()
		slots := &w.memory.shards[0].slots
		size := len(*slots)
		allocs := testing.AllocsPerRun(5, flood)
		if most := 4 * max(leastSlots/4, 5+int(grace*time.Microsecond/pause)); allocs != 0 || len(*slots) != size || size > most {
			t.Errorf("%v allocations for %d keys, %d slots, then %d, at most %d", allocs, len(keys), size, len(*slots), most)
		}
		for _, key := range keys[:5] {
			if d := take(live, key); d.Remaining != 8 {
				t.Errorf("%s has %d left, not 8", key, d.Remaining)
			}
		}
		if used := w.memory.Stats().Balances; used > size {
			t.Errorf("%d balances in %d slots", used, size)
		}
	}
}

// TestWhoAsksAgainHasItsSlot: callers whose balances are long idle when they ask
// again, and who ask again within the grace, find their slots: none is another's.
func TestWhoAsksAgainHasItsSlot(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{OneLock: true})
	brief, missing := PerSecond(1000), 0
	for i := range 10_000 {
		w.clock.Add(2000) // 40 of them are less than the grace
		c := brief.Charge(strconv.Itoa(i % 40))
		if e := w.memory.table(w.memory.print(&c)).hold(w.memory.print(&c), w.memory.now()); e != nil {
			e.free(e.print())
		} else {
			missing++
		}
		w.decide(c)
	}
	if missing != 40 {
		t.Errorf("40 callers had no slot %d times", missing)
	}
}

// TestTidy: tables that are tidied in their place keep what is live, where searches
// find it, and nothing else.
func TestTidy(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		s := &shard{table: new(table), room: 1 << 20}
		s.slots = make([]slot, leastSlots)
		s.shown = &s.slots
		live, n := map[uint64]uint64{}, random.IntN(13)
		for range n {
			id := random.Uint64N(1<<40)&^flags | 1<<20
			w := words{uint64(random.IntN(2)) << idleShift, random.Uint64(), 0}
			if id&kept == 0 && random.IntN(3) == 0 {
				id |= kept
			}
			s.settle(id, &w)
			s.used++
			if w.idleAt() >= 1 {
				live[id&^flags] = w[1]
			}
		}
		s.tidy(1)
		if s.used != len(live) {
			t.Fatalf("%d in use, %d live", s.used, len(live))
		}
		full := 0
		for i := range s.slots {
			if s.slots[i].id.Load() != 0 {
				full++
			}
		}
		for print, state := range live {
			if at := s.find(print); at < 0 || s.slots[at].w[1] != state || full != len(live) {
				t.Fatalf("%x is at %d, of %d in %d slots", print, at, len(live), full)
			}
		}
	}
}

// TestAFloodLeavesNoTrace: a flood of keys that were live for a minute takes no
// room a day later, whatever wants it.
func TestAFloodLeavesNoTrace(t *testing.T) {
	const flood, wanting = 300_000, 1000
	brief, long := PerMinute(10), Per(10, time.Hour)
	log := long.Using(algo.SlidingLog)
	flooded := func(t *testing.T) *world {
		w := newWorldOf(t, MemoryOptions{MaxBytes: 8 << 20})
		for i := range flood {
			if _, err := w.Allow(context.Background(), "brief"+strconv.Itoa(i), brief); err != nil {
				t.Fatal(err)
			}
		}
		if s := w.memory.Stats(); s.Evicted == 0 {
			t.Fatalf("the flood did not fill the room: %+v", s)
		}
		w.at(24 * time.Hour)
		return w
	}
	t.Run("sliding logs", func(t *testing.T) {
		w := flooded(t)
		before := w.memory.Stats().Evicted
		for i := range wanting {
			for range 10 {
				w.clock.Add(1)
				w.decide(log.Charge(strconv.Itoa(i)))
			}
		}
		for i := range wanting {
			if left := w.left(log, strconv.Itoa(i)); left != 0 {
				t.Fatalf("log %d of %d was forgotten: %d left", i, wanting, left)
			}
		}
		if n := w.memory.Stats().Evicted - before; n > 0 {
			t.Errorf("%d evicted", n)
		}
	})
	t.Run("refunds", func(t *testing.T) {
		w := flooded(t)
		for i := range wanting {
			b := w.decide(long.Charge(strconv.Itoa(i)))
			w.do(algo.Refund, 0, b.Charges...)
			if given := b.Charges[0].Receipt.Refunded; given != 1 {
				t.Fatalf("refund %d of %d gave %d", i, wanting, given)
			}
		}
	})
	t.Run("blocks", func(t *testing.T) {
		w := flooded(t)
		for i := range 20 * wanting {
			w.do(algo.Block, time.Hour, long.Charge(strconv.Itoa(i)))
		}
		for i := range 20 * wanting {
			if w.decide(long.Charge(strconv.Itoa(i))).Allowed {
				t.Fatalf("block %d of %d was lifted", i, 20*wanting)
			}
		}
	})
}

// TestIdleLogsGiveWayToBalances: a table grows where logs that are idle took the
// room, rather than forget balances that are not.
func TestIdleLogsGiveWayToBalances(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
	log, long := Per(1000, time.Second).Using(algo.SlidingLog), Per(10, time.Hour)
	balances := func(from, to int) {
		for i := from; i < to; i++ {
			w.decide(withCost(long, "balance"+strconv.Itoa(i), 10))
		}
	}
	balances(0, 5900)
	for i := range 60 {
		for range 1000 {
			w.clock.Add(1)
			w.decide(log.Charge(strconv.Itoa(i)))
		}
	}
	evicted := w.memory.Stats().Evicted
	w.clock.Add(2e6)
	balances(5900, 7000)
	if s := w.memory.Stats(); s.Evicted != evicted {
		t.Errorf("%d live balances were forgotten: %+v", s.Evicted-evicted, s)
	}
}

// TestLongLogsAreBounded: the longest logs that a limit may have stay within the
// bound, whatever filled the room before.
func TestLongLogsAreBounded(t *testing.T) {
	const room = 4 * leastRoom
	full := Per(10, 24*time.Hour)
	for name, fill := range map[string]func(w *world, i int){
		"balances": func(w *world, i int) { w.decide(withCost(full, strconv.Itoa(i), 10)) },
		"notes on receipts": func(w *world, i int) {
			w.decide(full.Charge(strconv.Itoa(i)))
			w.do(algo.Reset, 0, full.Charge(strconv.Itoa(i)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Notes go at once where a shard is full of them, so all are in one.
			w := newWorldOf(t, MemoryOptions{MaxBytes: room, OneLock: name != "balances"})
			for i := 0; w.memory.Stats().Bytes < room-room/500; i++ {
				w.clock.Add(1)
				if fill(w, i); i == 1_000_000 {
					t.Fatalf("%+v: the room does not fill", w.memory.Stats())
				}
			}
			l := Per(5000, 24*time.Hour).Using(algo.SlidingLog)
			for i := range 4 {
				for j := range 5000 {
					w.clock.Add(1)
					if d := w.decide(l.Charge(fmt.Sprint("log", i))); d.Remaining != int64(4999-j) {
						t.Fatalf("charge %d of log %d: %+v", j, i, d.Decision)
					}
				}
				if s := w.memory.Stats(); s.Bytes > room {
					t.Fatalf("%d bytes after log %d, over %d", s.Bytes, i, room)
				}
			}
		})
	}
}

// TestABlockAmongMany: a block costs much the same among a hundred as among a hundred
// thousand, of which the last have no room left. Within one run, by a wide margin.
func TestABlockAmongMany(t *testing.T) {
	cost := func(among int) time.Duration {
		w := newWorldOf(t, MemoryOptions{MaxBytes: 4 << 20, OneLock: true})
		n := 0
		block := func(times int) {
			for range times {
				n++
				w.do(algo.Block, time.Hour, PerMinute(1).Charge(strconv.Itoa(n)))
			}
		}
		block(among)
		least := time.Hour
		for range 5 {
			began := time.Now()
			block(200)
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := cost(100), cost(100_000); many > 50*few {
		t.Errorf("200 blocks take %v among a hundred, %v among a hundred thousand", few, many)
	}
}

// Blocks that have ended are no loss: what gives way to new ones is not counted, while
// one that still holds is.
func TestEndedBlocksAreNoLoss(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: 1 << 20, OneLock: true})
	n := 0
	block := func(times int) {
		for range times {
			n++
			w.do(algo.Block, time.Second/2, PerMinute(1).Charge(strconv.Itoa(n)))
		}
	}
	for w.memory.Stats().Evicted == 0 && n < 1<<17 {
		block(1)
	}
	full := n - 1
	if full < 1000 {
		t.Fatalf("only %d blocks fit", full)
	}
	if block(9); w.memory.Stats().Evicted != 10 {
		t.Errorf("%d blocks over what fits, %d counted", 10, w.memory.Stats().Evicted)
	}
	w.clock.Add(6e5) // not so long that a full shard is looked through again
	if block(full / 2); w.memory.Stats().Evicted != 10 {
		t.Errorf("%d of the %d that took the place of ended blocks were counted", w.memory.Stats().Evicted-10, full/2)
	}
}
