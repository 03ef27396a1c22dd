package weir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// TestBriefBillsAreDecidedAlike has random batches decided by two limiters at the
// same times, brief and not: every answer is the same, whatever the limit and the
// question, whether or not the balance is blocked, changed or ahead of the clock, and
// whatever the bill was used for before.
func TestBriefBillsAreDecidedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	brief, whole := newWorld(t), newWorld(t)
	whole.memory.seed = brief.memory.seed // what shares a shard differs else, and with it when a block that has ended is dropped
	limits := append(everyKind(5, time.Second), Per(3, time.Second).Burst(9), Per(5, time.Second).Burst(2), Per(2, time.Second).Named("n"), Unlimited(), PerSecond(0))
	charge := func(keys string) Charge {
		c := limits[rng.IntN(len(limits))].Charge(string(keys[rng.IntN(len(keys))]))
		c.Cost = rng.Int64N(4)
		c.Peek = c.Cost == 0
		c.Space = [...]string{"", "s"}[rng.IntN(2)]
		if rng.IntN(4) == 0 {
			c.Receipt = Receipt{ID: 7} // of what the bill was used for before
		}
		return c
	}
	var pool [2][6]Bill
	now, usual, refused := int64(epoch), 0, 0
	for range many(20_000) {
		now += rng.Int64N(300_000)
		if rng.IntN(200) == 0 {
			now -= rng.Int64N(20_000_000)
		}
		brief.clock.Store(now)
		whole.clock.Store(now)
		n := 1 + rng.IntN(len(pool[0]))
		bills := [2][]*Bill{}
		for at := range n {
			charges := []Charge{charge("abcd")}
			if rng.IntN(6) == 0 {
				charges = append(charges, charge("wxyz"))
			}
			verb, wait := [...]algo.Verb{algo.Take, algo.Take, algo.Take, algo.Peek}[rng.IntN(4)], [...]time.Duration{0, 0, 0, time.Second}[rng.IntN(4)]
			if rng.IntN(50) == 0 {
				until := time.Duration(rng.IntN(2)) * time.Second
				brief.do(algo.Block, until, charges[0])
				whole.do(algo.Block, until, charges[0])
			}
			for i := range bills {
				b := &pool[i][at]
				b.NoReceipts, b.Verb, b.MaxWait, b.Charges = i == 0, verb, wait, append(b.Charges[:0], charges...)
				bills[i] = append(bills[i], b)
			}
		}
		for i, w := range []*world{brief, whole} {
			if err := w.Decide(context.Background(), bills[i]...); err != nil {
				t.Fatal(err)
			}
		}
		for i, b := range bills[0] {
			other := bills[1][i]
			if b.Decision != other.Decision || !slices.Equal(b.Each, other.Each) || (b.IDText() == "") != (other.IDText() == "") || b.Err != nil {
				t.Fatalf("%v of %+v: brief %+v, each %+v, %v; else %+v, each %+v", b.Verb, b.Charges, b.Decision, b.Each, b.Err, other.Decision, other.Each)
			}
			if other.brief || b.brief && len(b.Balances()) != 0 {
				t.Fatalf("%d balances of a brief bill; a bill that wants receipts is brief: %v", len(b.Balances()), other.brief)
			}
			for j := range b.Charges {
				c := &other.Charges[j]
				if debited := other.Verb == algo.Take && other.Allowed && c.Cost > 0 && !c.Limit.IsUnlimited(); (c.Receipt.ID > 7) != debited || b.Charges[j].Receipt.ID != 0 {
					t.Fatalf("%v of %+v: receipts %+v and, where none is wanted, %+v", b.Verb, *c, c.Receipt, b.Charges[j].Receipt)
				}
			}
			if b.brief && b.Allowed {
				usual++
			}
			if !b.Allowed {
				refused++
			}
			if rng.IntN(4) == 0 {
				b.Err, other.Err = ErrClosed, ErrClosed // as after a store's failure
			}
		}
	}
	if usual == 0 || refused == 0 {
		t.Errorf("%d usual charges, %d refusals", usual, refused)
	}
}

// TestABadBriefBillIsRefused and nothing of the others beside it is charged.
func TestABadBriefBillIsRefused(t *testing.T) {
	w := newWorld(t)
	l := PerMinute(5)
	of := func(c Charge) *Bill { return &Bill{Charges: []Charge{c}} }
	for _, c := range []struct {
		what string
		bad  *Bill
	}{
		{"key", of(Charge{Limit: l, Cost: 1})},
		{"cost", of(Charge{Key: "k", Limit: l, Cost: -1})},
		{"cost", of(Charge{Key: "k", Limit: l})},
		{"cost", of(Charge{Key: "k", Limit: l, Cost: 1, Peek: true})},
		{"limit", of(Charge{Key: "k", Cost: 1})},
		{"trial", of(Charge{Key: "k", Limit: l, Cost: 1, Trial: 7})},
		{"charges", &Bill{}},
		{"charges", &Bill{Charges: slices.Repeat([]Charge{l.Charge("k")}, algo.MaxCharges+1)}},
		{"max_wait", &Bill{MaxWait: -1, Charges: []Charge{l.Charge("k")}}},
		{"for", &Bill{BlockFor: -1, Charges: []Charge{l.Charge("k")}}},
	} {
		c.bad.NoReceipts = true
		err := w.Decide(context.Background(), &Bill{NoReceipts: true, Charges: []Charge{l.Charge("k")}}, c.bad)
		if err == nil || !strings.Contains(err.Error(), c.what) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if left := w.left(l, "k"); left != 5 {
		t.Errorf("%d left", left)
	}
}

// TestBriefBillsWhileTablesGrow: balances are brought near while others move them.
// It is for the race detector, and the sum is right.
func TestBriefBillsWhileTablesGrow(t *testing.T) {
	w := newWorld(t)
	l := Per(1_000_000, time.Hour)
	var all sync.WaitGroup
	const callers, rounds, each = 4, 300, 16
	for caller := range callers {
		all.Go(func() {
			bills := make([]*Bill, each)
			for i := range bills {
				bills[i] = &Bill{NoReceipts: true}
			}
			for round := range rounds {
				for i := range bills {
					key := fmt.Sprint("own ", caller, round, i)
					if i%2 == 0 {
						key = fmt.Sprint(i)
					}
					bills[i].Charges = append(bills[i].Charges[:0], l.Charge(key))
				}
				if err := w.Decide(context.Background(), bills...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left := w.left(l, "2"); left != 1_000_000-callers*rounds {
		t.Errorf("%d left", left)
	}
}

// batched counts what it is told.
type batched struct{ one, calls, all int }

func (b *batched) Observe(context.Context, Event) { b.one++ }
func (b *batched) ObserveAll(_ context.Context, bills []*Bill, _ time.Duration) {
	b.calls++
	b.all += len(bills)
}

// TestABatchIsToldOnce to an observer that wants it so.
func TestABatchIsToldOnce(t *testing.T) {
	seen := new(batched)
	l, err := New(Options{Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bill := func() *Bill { return &Bill{Charges: []Charge{PerMinute(1).Charge("k")}} }
	for range 2 {
		if err := l.Decide(context.Background(), bill(), bill(), bill()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Decide(context.Background(), bill()); err != nil {
		t.Fatal(err)
	}
	if *seen != (batched{1, 2, 6}) {
		t.Errorf("%+v", *seen)
	}
}
