package weir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/weirhq/weir/algo"
)

// TestPacking: what goes into a slot comes out, up to the bounds.
func TestPacking(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	check := func(b algo.Bucket) {
		t.Helper()
		var w words
		w.putBucket(&b)
		var got algo.Bucket
		if w.getBucket(&got); got != b {
			t.Fatalf("%+v came out as %+v", b, got)
		}
		if w[2]&logFlag != 0 || w.idleAt() != b.Full {
			t.Fatalf("%+v: flag %v, idle at %d", b, w[2]&logFlag != 0, w.idleAt())
		}
	}
	for _, full := range []int64{0, 1, epoch, 1<<52 - 1} {
		for _, gap := range []int64{0, 1, 7, 8, algo.MaxFill, algo.MaxFill + algo.MaxWait} {
			for _, n := range []int64{1, 2, algo.MaxUnits} {
				for _, phase := range []int64{0, 1, n - 1} {
					if full >= gap && phase < n {
						check(algo.Bucket{Full: full, Phase: phase, Charged: full - gap, N: n, Cap: algo.MaxUnits + 1})
					}
				}
			}
		}
	}
	for range many(100_000) {
		n := 1 + rng.Int64N(algo.MaxUnits)
		full := rng.Int64N(1 << 52)
		check(algo.Bucket{Full: full, Phase: rng.Int64N(n), Charged: full - rng.Int64N(min(full, algo.MaxFill)+1), N: n, Cap: 1 + rng.Int64N(algo.MaxUnits+1)})
	}
	for range many(100_000) {
		q := algo.Quota{Kind: algo.SlidingWindow, N: algo.MaxUnits, Period: 1000 + rng.Int64N(algo.MaxPeriod)}
		state := algo.Window{Start: rng.Int64N(1 << 51), Prev: rng.Int64N(algo.MaxUnits + 1), Cur: rng.Int64N(algo.MaxUnits + 1)}
		v := algo.View{Start: state.Start, End: state.Start + q.Period}
		if w := packWindow(&q, &v, state); w.window() != state || w[2]&logFlag != 0 {
			t.Fatalf("%+v came out as %+v", state, w.window())
		}
	}
}

// TestIdleBalancesGiveWayFirst: balances that are as if never used are dropped
// before any that is not, and dropping them is no eviction.
func TestIdleBalancesGiveWayFirst(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom})
	long, short := Per(10, time.Hour), Per(10, time.Second)
	const held = 4_000
	for i := range held {
		w.decide(withCost(long, fmt.Sprint("held", i), 10))
	}
	for i := range many(200_000) {
		if i%2_000 == 0 {
			w.at(time.Duration(i/2_000) * 2 * time.Second) // those before are idle by now
		}
		w.decide(short.Charge(fmt.Sprint("brief", i)))
	}
	s := w.memory.Stats()
	if s.Evicted != 0 || s.Bytes > leastRoom {
		t.Errorf("%+v", s)
	}
	for i := range held {
		if left := w.left(long, fmt.Sprint("held", i)); left > 0 {
			t.Fatalf("a drained balance was forgotten: %d of 10 remain", left)
		}
	}
}

// TestAlmostIdleIsNotIdle: newcomers take the place of no balance that still
// holds something, were it for a moment longer.
func TestAlmostIdleIsNotIdle(t *testing.T) {
	w := newWorld(t)
	brief := Per(1, time.Second)
	const held = 4_000
	for i := range held {
		w.decide(brief.Charge(fmt.Sprint("held", i)))
	}
	w.at(time.Second - time.Microsecond)
	for i := range 2 * held {
		w.decide(brief.Charge(fmt.Sprint("new", i)))
	}
	for i := range held {
		if w.decide(brief.Charge(fmt.Sprint("held", i))).Allowed {
			t.Fatal("admitted a microsecond early: its balance was taken for idle")
		}
	}
}

// TestNearestToIdleGivesWayNext: at the bound the balances that forget least are
// dropped, so a drained one outlives a flood of new callers.
func TestNearestToIdleGivesWayNext(t *testing.T) {
	for _, l := range []Limit{Per(10, time.Hour), Per(10, time.Hour).Using(algo.FixedWindow), Per(10, time.Hour).Using(algo.SlidingWindow)} {
		w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom})
		const drained = 500
		for i := range drained {
			w.decide(withCost(l, fmt.Sprint("drained", i), 10))
		}
		for i := range 200_000 {
			w.decide(l.Charge(fmt.Sprint("new", i)))
		}
		s := w.memory.Stats()
		if s.Evicted == 0 || s.Bytes > leastRoom {
			t.Errorf("%s: %+v", l.Kind(), s)
		}
		lost := 0
		for i := range drained {
			if w.left(l, fmt.Sprint("drained", i)) > 0 {
				lost++
			}
		}
		if lost > 0 {
			t.Errorf("%s: %d of %d drained balances were forgotten for new ones", l.Kind(), lost, drained)
		}
	}
}

// TestEqualsAreThinned: where all balances forget alike some stay, rather than
// none.
func TestEqualsAreThinned(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom})
	l := Per(10, time.Hour).Using(algo.FixedWindow)
	const callers = 60_000
	for i := range callers {
		w.decide(l.Charge(fmt.Sprint(i)))
	}
	kept := 0
	for i := range callers {
		if w.left(l, fmt.Sprint(i)) < 10 {
			kept++
		}
	}
	slots := leastRoom / slotBytes
	if kept < slots/3 {
		t.Errorf("%d balances kept in %d slots", kept, slots)
	}
	if s := w.memory.Stats(); s.Bytes > leastRoom || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
}

// TestLogsAreBounded: a flood of sliding logs stays within the bound, and the
// log being charged is never the one that gives way.
func TestLogsAreBounded(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom})
	l := Per(50, time.Hour).Using(algo.SlidingLog)
	for i := range many(20_000) {
		key := fmt.Sprint(i)
		for j := range 20 {
			w.clock.Add(1)
			if d := w.decide(l.Charge(key)).Decision; d.Remaining != int64(49-j) {
				t.Fatalf("charge %d of %s: %d remain", j, key, d.Remaining)
			}
		}
	}
	s := w.memory.Stats()
	if over := s.Bytes - leastRoom; over > 0 || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
	var logs, entries int64
	for i := range w.memory.shards {
		sh := &w.memory.shards[i]
		entries += sh.logBytes
		for _, log := range sh.logs {
			logs += logBytes + int64(log.Cap())*entryBytes
		}
	}
	if logs != entries {
		t.Errorf("%d bytes of logs, counted as %d", logs, entries)
	}
}

// TestRebuildUnderLoad: no charge is lost or doubled while shards grow.
func TestRebuildUnderLoad(t *testing.T) {
	w := newWorld(t)
	const workers, keys = 8, 3_000
	limits := everyKind(workers, time.Hour)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range keys {
				if d, err := w.Allow(context.Background(), fmt.Sprint(i), limits[i%len(limits)]); err != nil || !d.Allowed {
					t.Errorf("%d: %+v, %v", i, d, err)
					return
				}
			}
		})
	}
	all.Wait()
	for i := range keys {
		if left := w.left(limits[i%len(limits)], fmt.Sprint(i)); left != 0 {
			t.Fatalf("%s of key %d: %d remain, want 0", limits[i%len(limits)], i, left)
		}
	}
	if s := w.memory.Stats(); s.Balances != keys || s.Evicted != 0 {
		t.Errorf("%+v", s)
	}
}

// TestConcurrentBills: bills over overlapping keys in any order neither wait for
// each other in a circle nor let through one too many.
func TestConcurrentBills(t *testing.T) {
	w := newWorld(t)
	const workers, tries, room = 16, 200, 500
	for _, l := range everyKind(room, 24*time.Hour) {
		admitted := make([]int64, workers)
		var all sync.WaitGroup
		for g := range workers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				b := &Bill{}
				for range tries {
					b.Charges = b.Charges[:0]
					for _, i := range rng.Perm(5)[:3] {
						b.Charges = append(b.Charges, l.Charge(fmt.Sprint("shared", i)))
					}
					if err := w.Decide(context.Background(), b); err != nil {
						t.Error(err)
						return
					}
					if b.Allowed {
						admitted[g] += 3
					}
				}
			})
		}
		all.Wait()
		var sum, used int64
		for _, n := range admitted {
			sum += n
		}
		for i := range 5 {
			used += room - w.left(l, fmt.Sprint("shared", i))
		}
		if sum != used || sum == 0 {
			t.Errorf("%s: %d units admitted, %d debited", l.Kind(), sum, used)
		}
	}
}

// TestConcurrentVerbs runs every verb at once, for the race detector.
func TestConcurrentVerbs(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 300 {
				limit := everyKind(5, time.Millisecond)[i%5]
				b := &Bill{Charges: []Charge{limit.Charge("k"), limit.Charge(fmt.Sprint(g))}}
				if err := l.Decide(ctx, b); err != nil {
					t.Error(err)
					return
				}
				var err error
				switch i % 7 {
				case 0:
					err = l.Reset(ctx, b.Charges...)
				case 1:
					err = l.Block(ctx, time.Microsecond, b.Charges...)
				default:
					if b.Allowed {
						err = l.Refund(ctx, b.Charges...)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestKeysAreNotKept: a key may live in a buffer that is used again.
func TestKeysAreNotKept(t *testing.T) {
	w := newWorld(t)
	for _, l := range everyKind(5, time.Minute) {
		buffer := []byte("first")
		key := unsafe.String(&buffer[0], len(buffer))
		w.decide(l.Charge(key))
		w.do(algo.Block, time.Second, PerMinute(6).Named("blocked").Charge(key))
		copy(buffer, "other")
		if first, other := w.left(l, "first"), w.left(l, "other"); first != 4 || other != 5 {
			t.Errorf("%s: %d remain of first, %d of other", l.Kind(), first, other)
		}
	}
}

// TestBillsOfOneCallHaveBalancesOfTheirOwn: a key under other spaces and limits, in
// one call, is charged where it is charged when it is asked for alone.
func TestBillsOfOneCallHaveBalancesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	under := func(l Limit, space string) Charge {
		c := l.Charge("k")
		c.Space = space
		return c
	}
	different := []Charge{
		under(PerMinute(10), ""), under(PerMinute(10), "a"), under(PerMinute(10), "b"),
		under(Per(10, time.Hour), "b"), under(PerMinute(10).Named("n"), "b"), under(PerMinute(10), ""),
	}
	for _, receipts := range []bool{true, false} {
		var bills []*Bill
		for _, c := range different {
			bills = append(bills, &Bill{Charges: []Charge{c}, NoReceipts: !receipts})
		}
		if err := w.Decide(context.Background(), bills...); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range different {
		want := int64(8 - 1) // two calls, and this
		if c.Space == "" {
			want = 10 - 4 - 1 - int64(i/5) // asked for twice a call, and here
		}
		if d, err := w.Take(context.Background(), c); err != nil || d.Remaining != want {
			t.Errorf("charge %d: %d left, want %d; %v", i, d.Remaining, want, err)
		}
	}
}

// TestABlockThatEndedCostsNothing: once blocks have ended or are lifted, charges
// of other keys of their shard are decided without a bill again.
func TestABlockThatEndedCostsNothing(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{OneLock: true})
	l, d := PerMinute(100), new(Decision)
	usual := func() bool { return w.memory.takeUsual(d, "other", 1, &l) }
	w.do(algo.Block, time.Second, l.Charge("k"))
	if usual() {
		t.Error("a shard with a block is not asked for it")
	}
	w.at(time.Second)
	if !usual() {
		t.Error("a block that ended is still asked for")
	}
	for name, lift := range map[string]func(){
		"lifted": func() { w.do(algo.Block, 0, l.Charge("k")) },
		"reset":  func() { w.do(algo.Reset, 0, l.Charge("k")) },
	} {
		w.do(algo.Block, time.Hour, l.Charge("k"))
		if lift(); !usual() {
			t.Errorf("a block that was %s is still asked for", name)
		}
	}
}
