package weir

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// Receipts where the store has little room, and where the clock steps: less may
// come back than is owed, never more.

// A shard without room for notes on resets gives back nothing for what was before
// them, and goes on giving back for what comes after.
func TestNothingIsRefundedTwiceForWantOfRoom(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
	l := Per(10, 24*time.Hour)
	var old []Charge
	for i := range leastRoom / ledgerBytes * 5 / 4 {
		w.clock.Add(1)
		c := w.decide(l.Charge(fmt.Sprint(i))).Charges[0]
		w.do(algo.Reset, 0, c) // to be remembered as void
		old = append(old, c)
	}
	if w.memory.shards[0].voided == 0 {
		t.Fatalf("there was room for all: %+v", w.memory.Stats())
	}
	given := int64(0)
	for _, c := range slices.Backward(old) {
		w.clock.Add(1)
		anew := w.decide(l.Charge(c.Key))
		again := []Charge{c}
		w.do(algo.Refund, 0, again...)
		if again[0].Receipt.Refunded != 0 { // what is left is rounded, and shows less
			t.Fatal("a receipt from before a reset gave something back")
		}
		w.do(algo.Refund, 0, anew.Charges...)
		given += anew.Charges[0].Receipt.Refunded
	}
	if s := w.memory.Stats(); s.Bytes > leastRoom || given < 1000 {
		t.Errorf("%d bytes, and %d receipts from after the resets were good", s.Bytes, given)
	}
}

// TestRefundsAreNotedForAsLongAsAClockMayStep: a receipt is good once, also where
// its balance was idle and the clock then goes back by less than MaxSkew.
func TestRefundsAreNotedForAsLongAsAClockMayStep(t *testing.T) {
	for _, l := range everyKind(10, 10*time.Second) {
		for name, pass := range map[string]func(w *world){
			"a table is looked through": func(w *world) {
				for i := range 50 {
					w.decide(l.Charge("another" + strconv.Itoa(i)))
				}
			},
			"another refund": func(w *world) { w.refundOne(l, "k") },
		} {
			w := newWorldOf(t, MemoryOptions{OneLock: true})
			old := w.decide(withCost(l, "k", 5))
			w.do(algo.Refund, 0, old.Charges...)
			idle := l.Kind().Window() || l.Kind() == algo.SlidingLog
			w.at(5500 * time.Millisecond)
			if idle {
				w.at(11 * time.Second)
			}
			pass(w)
			w.at(time.Second)
			if idle {
				w.at(2 * time.Second)
			}
			before := w.left(l, "k")
			w.decide(withCost(l, "k", 4))
			w.do(algo.Refund, 0, old.Charges...)
			if left := w.left(l, "k"); left != before-4 {
				t.Errorf("%s, %s: a receipt was good twice: %d left of %d", l.Kind(), name, left, before)
			}
		}
	}
}

// TestAStepIsKeptWhereSlotsMove: a balance that a step of the clock found ahead is
// charged, and its old receipts are void, also where the note of that needs room
// and the table is compacted for it.
func TestAStepIsKeptWhereSlotsMove(t *testing.T) {
	for _, l := range everyKind(10, 24*time.Hour) {
		w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
		for i := range 18_000 {
			w.decide(PerSecond(1).Charge("brief" + strconv.Itoa(i)))
		}
		if s := w.memory.Stats(); s.Bytes != leastRoom {
			t.Fatalf("the table does not fill the room: %+v", s)
		}
		w.at(25 * time.Hour)
		old := w.decide(withCost(l, "k", 5))
		w.at(26 * time.Hour)
		w.decide(withCost(l, "k", 2))
		w.at(2 * time.Hour)
		if b := w.decide(withCost(l, "k", 1)); !b.Allowed || b.Remaining != 2 {
			t.Errorf("%s: %+v", l.Kind(), b.Decision)
		}
		w.do(algo.Refund, 0, old.Charges...)
		if left := w.left(l, "k"); left != 2 {
			t.Errorf("%s: %d left after a refund from before the step", l.Kind(), left)
		}
		if s := w.memory.Stats(); s.Stepped != 1 || s.Bytes == leastRoom {
			t.Errorf("%s: %+v", l.Kind(), s)
		}
	}
}

// TestReceiptsOfTheForgottenAreVoid: a balance that gave way and was charged anew
// gives nothing back for what it was charged before.
func TestReceiptsOfTheForgottenAreVoid(t *testing.T) {
	long := Per(10, 24*time.Hour)
	for _, l := range everyKind(1000, time.Hour) {
		w := newWorldOf(t, MemoryOptions{MaxBytes: 3 * leastRoom / 2, OneLock: true})
		old := w.decide(withCost(l, "k", 5))
		for i := 0; w.left(l, "k") < 1000; i++ {
			if w.clock.Add(1); i == 100_000 {
				t.Fatalf("%s: the balance nearest to idle did not give way", l.Kind())
			}
			w.decide(withCost(long, strconv.Itoa(i), 10))
		}
		w.clock.Add(1)
		anew := w.decide(withCost(l, "k", 10))
		w.do(algo.Refund, 0, old.Charges...)
		if left := w.left(l, "k"); left != 990 {
			t.Errorf("%s: an old receipt gave back %d", l.Kind(), left-990)
		}
		w.do(algo.Refund, 0, anew.Charges...)
		if left := w.left(l, "k"); left != 1000 {
			t.Errorf("%s: a new receipt gave back %d of 10", l.Kind(), left-990)
		}
	}
}

// TestLogsGiveWayWithTheirReceipts is the same where a log gives way to logs.
func TestLogsGiveWayWithTheirReceipts(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{MaxBytes: leastRoom, OneLock: true})
	l, long := Per(10, time.Hour).Using(algo.SlidingLog), Per(5000, 24*time.Hour).Using(algo.SlidingLog)
	var old []Charge
	for i := range 10 {
		old = append(old, w.decide(withCost(l, "k"+strconv.Itoa(i), 5)).Charges...)
	}
	at := w.clock.Load()
	for i, j := 0, 0; j < len(old); i++ {
		w.clock.Add(1)
		w.decide(long.Charge(strconv.Itoa(i % 30)))
		for j < len(old) && w.left(l, old[j].Key) == 10 {
			j++ // it gave way
		}
	}
	w.clock.Store(at) // a log gives back by the instant of its entry
	for _, c := range old {
		w.decide(withCost(l, c.Key, 10))
		w.do(algo.Refund, 0, c)
		if left := w.left(l, c.Key); left > 0 {
			t.Errorf("a log's old receipt gave back %d", left)
		}
	}
}

// TestAnIdleBucketsReceiptsArePaid: what a refund brought forward stays so when a later
// one leaves the bucket idle. A receipt of what was paid off before gives nothing back.
func TestAnIdleBucketsReceiptsArePaid(t *testing.T) {
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.LeakyBucket} {
		w, l := newWorld(t), PerSecond(1).Burst(30).Using(kind)
		first, second := w.decide(withCost(l, "k", 10)), w.decide(withCost(l, "k", 10)) // due after 20 s
		w.at(time.Second)
		w.do(algo.Refund, 0, first.Charges...) // and now after 11 s
		w.at(12 * time.Second)
		w.do(algo.Refund, 0, w.decide(withCost(l, "k", 10)).Charges...)
		again := w.decide(withCost(l, "k", 10))
		w.do(algo.Refund, 0, second.Charges...)
		if got := second.Charges[0].Receipt.Refunded; got != 0 {
			t.Errorf("%s: %d came back of what was paid off", kind, got)
		}
		w.do(algo.Refund, 0, again.Charges...)
		if got := again.Charges[0].Receipt.Refunded; got != 10 {
			t.Errorf("%s: %d came back of 10 that are owed", kind, got)
		}
	}
}

// TestReceiptsFromAheadOfTheClock: one from before a clock went back by more than is
// believed is void, though the balance was idle and nothing was left to move; and a reset
// of a balance that stands ahead by less voids what stands where it does.
func TestReceiptsFromAheadOfTheClock(t *testing.T) {
	for _, l := range everyKind(10, time.Hour) {
		w := newWorld(t)
		w.at(20 * time.Hour)
		old := w.decide(withCost(l, "k", 5))
		w.do(algo.Refund, 0, w.decide(withCost(l, "k", 1)).Charges...)
		w.at(22 * time.Hour)
		w.do(algo.Refund, 0, w.decide(withCost(l, "k", 5)).Charges...)
		w.at(time.Hour)
		w.decide(withCost(l, "k", 5))
		w.do(algo.Refund, 0, old.Charges...)
		if got := old.Charges[0].Receipt.Refunded; got != 0 {
			t.Errorf("%s: %d came back by a receipt from ahead", l.Kind(), got)
		}

		w = newWorld(t)
		w.at(time.Hour)
		w.decide(l.Charge("k"))
		w.at(time.Hour - 5*time.Second)
		old = w.decide(withCost(l, "k", 5))
		w.do(algo.Reset, 0, l.Charge("k"))
		w.at(time.Hour + time.Second)
		w.decide(withCost(l, "k", 5))
		w.do(algo.Refund, 0, old.Charges...)
		if got := old.Charges[0].Receipt.Refunded; got != 0 {
			t.Errorf("%s: %d came back of what was before a reset", l.Kind(), got)
		}
	}
}

// TestALimitThatWasChangedBack: what was owed was read anew in between, so a receipt
// from before gives nothing back, and those from after it do.
func TestALimitThatWasChangedBack(t *testing.T) {
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.LeakyBucket} {
		w, slow, fast := newWorld(t), Per(10, time.Hour).Using(kind), Per(1000, time.Hour).Using(kind)
		if kind == algo.LeakyBucket {
			slow, fast = slow.Burst(9), fast.Burst(999)
		}
		old := w.decide(withCost(slow, "k", 10))
		w.at(time.Minute)
		w.decide(fast.Charge("k"))
		w.at(6 * time.Minute)
		anew := w.decide(withCost(slow, "k", 5))
		w.do(algo.Refund, 0, old.Charges...)
		w.do(algo.Refund, 0, anew.Charges...)
		if got := old.Charges[0].Receipt.Refunded; got != 0 || !anew.Allowed {
			t.Errorf("%s: %d came back of what was paid off", kind, got)
		}
		if got := anew.Charges[0].Receipt.Refunded; got != 5 {
			t.Errorf("%s: %d came back of 5 that are owed", kind, got)
		}
	}
}
