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

// A slot that is held without the mutex is waited for by all that change it under
// the mutex, and nobody else takes it.
func TestWhoHoldsASlotIsWaitedFor(t *testing.T) {
	limit, other := Per(10, time.Hour), Per(10, time.Hour).Named("other")
	does := []struct {
		name string
		do   func(w *world, receipt Charge)
		left int64 // of the 10; 9 before
	}{
		{"a take", func(w *world, _ Charge) { w.take(limit, 2) }, 7},
		{"a bill of two", func(w *world, _ Charge) { w.decide(limit.Charge("k"), other.Charge("k")) }, 8},
		{"a bill with a trial", func(w *world, _ Charge) {
			beside := other.Charge("k")
			beside.Trial = -1
			w.decide(limit.Charge("k"), beside)
		}, 8},
		{"a refund", func(w *world, c Charge) {
			if err := w.Refund(context.Background(), c); err != nil {
				w.t.Error(err)
			}
		}, 10},
		{"a reset", func(w *world, _ Charge) { w.do(algo.Reset, 0, limit.Charge("k")) }, 10},
		{"a block", func(w *world, _ Charge) { w.do(algo.Block, time.Minute, limit.Charge("k")) }, 9},
		{"growth", func(w *world, _ Charge) {
			for i := range 100 {
				w.decide(other.Charge(strconv.Itoa(i)))
			}
		}, 9},
	}
	for _, c := range does {
		t.Run(c.name, func(t *testing.T) {
			w := newWorldOf(t, MemoryOptions{OneLock: true})
			first := w.decide(limit.Charge("k"), other.Charge("beside")).Charges[0]
			print := w.memory.print(&first)
			e := w.memory.table(print).hold(print, w.memory.now())
			if e == nil {
				t.Fatal("the slot cannot be held")
			}
			if w.memory.table(print).hold(print, w.memory.now()) != nil {
				t.Fatal("it is held twice")
			}
			var done atomic.Bool
			var all sync.WaitGroup
			all.Go(func() { c.do(w, first); done.Store(true) })
			for range 2000 {
				runtime.Gosched()
			}
			if done.Load() {
				t.Error("done while the slot was held")
			}
			e.free(print)
			all.Wait()
			if left := w.left(limit, "k"); left != c.left {
				t.Errorf("%d are left, want %d", left, c.left)
			}
			if e := &w.memory.shards[0].slots[w.memory.shards[0].find(print)]; e.id.Load() != print {
				t.Error("the slot is held by nobody who is there")
			}
		})
	}
}

// A held slot is about to be used: though it is idle, no newcomer claims it.
func TestHeldSlotsAreNotClaimed(t *testing.T) {
	w := newWorldOf(t, MemoryOptions{OneLock: true})
	brief := PerSecond(1000)
	c := brief.Charge("k")
	w.decide(c)
	w.at(time.Minute)
	print := w.memory.print(&c)
	e := w.memory.table(print).hold(print, w.memory.now())
	s := &w.memory.shards[0]
	for i := range uint64(8) { // each would take the held one, where its search begins
		newcomer := print + i<<50 + 1<<50
		at := s.insert(newcomer, w.memory.now())
		if &s.slots[at] == e {
			t.Fatal("a newcomer has the slot of another")
		}
		s.free(at, newcomer)
	}
	if e.print() != print {
		t.Error("the slot is another's")
	}
	e.free(print)
}

// What a bill keeps it keeps where its slot moves to, or a taker would come between
// its judging and its debit.
func TestKeptSlotsMoveKept(t *testing.T) {
	for _, others := range []int{0, 100} {
		w := newWorldOf(t, MemoryOptions{OneLock: true})
		c := Per(10, time.Hour).Charge("k")
		w.decide(c)
		for i := range others {
			w.decide(c.Limit.Charge(strconv.Itoa(i)))
		}
		print, s := w.memory.print(&c), &w.memory.shards[0]
		s.mu.Lock()
		s.keep(print)
		s.rebuild(w.memory.now())
		if w.memory.table(print).hold(print, w.memory.now()) != nil {
			t.Errorf("beside %d others a slot lost its holder as it moved", others)
		}
		s.free(s.find(print), print)
		s.mu.Unlock()
	}
}

// While slots move and are claimed under their feet, those who charge by slots alone
// lose no charge and give none twice: in tables that stay where they are, as few are
// live, and in tables that move.
func TestSlotsMoveUnderTakers(t *testing.T) {
	for _, live := range []int{4, 400} {
		t.Run(fmt.Sprint(live, " live"), func(t *testing.T) {
			w := newWorldOf(t, MemoryOptions{OneLock: true})
			const takes, takers, room = 40_000, 3, 1_000_000
			limit, brief := Per(room, 365*24*time.Hour), Per(room, time.Second)
			second := limit.Named("second")
			var all, mover sync.WaitGroup
			var over atomic.Bool
			moved := int64(0)
			mover.Go(func() {
				for i := 0; !over.Load(); i++ {
					w.clock.Add(2) // the one before is idle
					w.decide(brief.Charge(strconv.Itoa(i)), second.Charge(strconv.Itoa(i%live)))
					moved++
					if i%64 == 0 {
						s := &w.memory.shards[0]
						s.mu.Lock()
						s.rebuild(w.memory.now())
						s.mu.Unlock()
					}
				}
			})
			for g := range takers {
				all.Go(func() {
					b := &Bill{NoReceipts: true}
					for i := range takes {
						key := strconv.Itoa((i*takers + g) % live)
						b.Charges = append(b.Charges[:0], limit.Charge(key))
						if i%4 == 0 {
							b.Charges = append(b.Charges, second.Charge(key))
						}
						if err := w.Decide(context.Background(), b); err != nil || !b.Allowed {
							t.Errorf("%+v, %v", b.Decision, err)
							return
						}
					}
				})
			}
			all.Wait()
			over.Store(true)
			mover.Wait()
			var used, also int64
			for i := range live {
				used += room - w.left(limit, strconv.Itoa(i))
				also += room - w.left(second, strconv.Itoa(i))
			}
			if used != takes*takers || also != takes*takers/4+moved {
				t.Errorf("%d and %d debited of %d and %d", used, also, takes*takers, takes*takers/4+moved)
			}
			restful(t, w.memory)
		})
	}
}

// restful checks what holds of a memory that nobody is using: no slot is held, none
// is a second one of the same balance, and shards are open.
func restful(t *testing.T, m *Memory) {
	t.Helper()
	for i := range m.shards {
		s := &m.shards[i]
		if s.table.slots.Load() != s.shown {
			t.Error("a shard is closed")
		}
		whose := map[uint64]bool{}
		for i := range s.slots {
			switch id := s.slots[i].id.Load(); {
			case id&flags != 0:
				t.Error("a slot is held by nobody")
			case id != 0 && whose[id]:
				t.Error("two slots are one balance's")
			default:
				whose[id] = true
			}
		}
	}
}
