package weir

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// What may come between the steps of those who decide in memory.

// notYet runs f and checks that it is not done before let is called, which ends what it
// waits for.
func notYet(t *testing.T, f, let func()) {
	t.Helper()
	var done atomic.Bool
	var all sync.WaitGroup
	all.Go(func() { f(); done.Store(true) })
	for range 2000 {
		runtime.Gosched()
	}
	if done.Load() {
		t.Error("it was not waited for")
	}
	let()
	all.Wait()
}

// An enforced charge and a trial may be on one balance: whoever takes the slot when the
// first of them has let go keeps it.
func TestASlotOfTwoBalancesIsFreedOnce(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{OneLock: true})
	c := Per(1_000_000_000, 365*24*time.Hour).Charge("k")
	w.decide(c)
	m, print := w.memory, w.memory.print(&c)
	s := m.shard(print)
	s.mu.Lock()
	first, second := s.keep(print), s.keep(print)
	s.free(first, print)
	e := m.table(print).hold(print, m.now())
	s.free(second, print)
	s.mu.Unlock()
	if m.table(print).hold(print, m.now()) != nil {
		t.Fatal("two hold a slot")
	}
	e.free(print)

	const each = 20_000
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			beside := c
			beside.Trial = -1
			b := &Bill{NoReceipts: true, Charges: []Charge{c, beside}}
			for range each {
				if err := w.Decide(context.Background(), b); err != nil || !b.Allowed {
					t.Errorf("%+v, %v", b.Decision, err)
				}
			}
		})
		all.Go(func() {
			for range each {
				w.take(c.Limit, 1)
			}
		})
	}
	all.Wait()
	if used := c.Limit.n - w.left(c.Limit, "k"); used != 1+2*each*3 {
		t.Errorf("%d debited of %d", used, 1+2*each*3)
	}
}

// A taker who read where the slots are before they were closed, and takes one when those
// inside were waited for: it finds out before anything is in another's place.
func TestATakerWhoComesLate(t *testing.T) {
	for _, whose := range []int{0, 1} { // one that is idle, and one behind it that moves up
		w := newWorldOf(t, MemoryOptions{OneLock: true})
		w.decide(Per(10, time.Hour).Charge("first"))
		s, now := &w.memory.shards[0], w.memory.now()
		put := func(high uint64, full int64) uint64 { // all of them in a row
			print := high<<44 | 1<<20 | 5
			s.mu.Lock()
			defer s.mu.Unlock()
			at := s.insert(print, now)
			s.slots[at].w.putBucket(&algo.Bucket{Full: full, Charged: now, N: 1000, Cap: 1000})
			s.free(at, print)
			return print
		}
		idle, mine, other := put(1, now+1), put(2, now+3_600_000), put(3, now+3_600_000)
		w.clock.Add(2 * grace)
		s.mu.Lock()
		then := w.memory.now() - grace
		s.expire(then)
		print := []uint64{idle, mine}[whose]
		late := &s.slots[s.find(print)]
		if !late.take(print) {
			t.Fatal("not taken")
		}
		notYet(t, func() { s.tidy(then) }, func() { late.free(print) })
		s.open()
		s.mu.Unlock()
		if s.find(idle) >= 0 || s.find(mine) < 0 || s.find(other) < 0 || s.used != 3 {
			t.Errorf("%d in use; at %d, %d, %d", s.used, s.find(idle), s.find(mine), s.find(other))
		}
	}
}

// A reset that waited for a taker voids the taker's receipt: what it owes is forgotten,
// and it would pay for what others charge after the reset.
func TestAResetVoidsWhatCameFirst(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{OneLock: true})
	l := Per(10, time.Hour)
	c := w.decide(l.Charge("k")).Charges[0]
	print := w.memory.print(&c)
	e := w.memory.table(print).hold(print, w.memory.now())
	bill := &Bill{Charges: []Charge{l.Charge("k")}}
	if err := bill.Check(); err != nil {
		t.Fatal(err)
	}
	bal := &bill.Balances()[0]
	notYet(t, func() { w.do(algo.Reset, 0, l.Charge("k")) }, func() {
		e.w.judge(w.clock.Add(5), 0, bal)
		e.w.debit(bal)
		c.Receipt = bal.Receipt(1)
		e.free(print)
	})
	w.decide(withCost(l, "k", 5))
	w.do(algo.Refund, 0, c)
	if left := w.left(l, "k"); left != 5 {
		t.Errorf("a receipt from before the reset gave %d", left-5)
	}
}

// A balance of the bill at work that gives way for want of room, or whose log would, and
// whose stored time has to step back: the bill is decided all the same.
func TestWhatABillPushesOut(t *testing.T) {
	t.Run("a bucket", func(t *testing.T) {
		w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
		l := Per(1000, 24*time.Hour)
		s := &w.memory.shards[0]
		w.at(time.Hour)
		w.decide(l.Charge("nearest to idle"))
		for i := 0; 2*int64(len(s.slots))*slotBytes <= s.room || 4*(s.used+1) <= 3*len(s.slots); i++ {
			w.decide(withCost(l, strconv.Itoa(i), 500))
		}
		w.at(0)
		if b := w.decide(l.Charge("new"), l.Charge("nearest to idle")); !b.Allowed {
			t.Errorf("%+v", b.Decision)
		}
	})
	t.Run("a log", func(t *testing.T) {
		w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
		l := Per(5000, 24*time.Hour).Using(algo.SlidingLog)
		s := &w.memory.shards[0]
		w.at(time.Hour)
		fill := func(key string, n int) {
			for range n {
				w.clock.Add(1)
				w.decide(l.Charge(key))
			}
		}
		fill("nearest to idle", 1)
		for i := range 6 { // few enough for all to be looked at
			fill(fmt.Sprint("log", i), 4097)
		}
		for i := 0; s.room-s.bytes() >= blockBytes; i++ {
			w.do(algo.Block, 24*time.Hour, l.Charge(fmt.Sprint("blocked ", i)))
		}
		w.at(0)
		if b := w.decide(l.Charge("new"), l.Charge("nearest to idle")); !b.Allowed {
			t.Errorf("%+v", b.Decision)
		}
		if left := w.left(l, "new"); left != 4999 {
			t.Errorf("%d are left, so the charge is gone", left)
		}
	})
}

// What is idle but has grace takes no room from refunds and blocks.
func TestGraceTakesNoRoom(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
	brief, long := PerSecond(1000), Per(10, time.Hour)
	for i := range 300_000 {
		w.clock.Add(5) // 200,000 callers a second, each idle after a millisecond
		if _, err := w.Allow(context.Background(), strconv.Itoa(i), brief); err != nil {
			t.Fatal(err)
		}
	}
	c := w.decide(long.Charge("k")).Charges[0]
	if w.do(algo.Refund, 0, c); w.left(long, "k") != 10 {
		t.Error("a refund gave nothing")
	}
	const blocks = 100
	for i := range blocks {
		w.do(algo.Block, time.Hour, long.Charge(fmt.Sprint("blocked ", i)))
	}
	for i := range blocks {
		if w.decide(long.Charge(fmt.Sprint("blocked ", i))).Allowed {
			t.Errorf("block %d of %d is gone: %+v", i, blocks, w.memory.Stats())
			break
		}
	}
}
