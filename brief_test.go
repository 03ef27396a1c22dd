package weir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// TestBriefBillsAreDecidedAlike has random batches decided by two limiters at the
// same times, brief and not: every answer is the same, whatever the limit, and
// whether or not the balance is blocked, changed or ahead of the clock.
func TestBriefBillsAreDecidedAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	brief, whole := newWorld(t), newWorld(t)
	whole.memory.seed = brief.memory.seed // what shares a shard differs else, and with it when a block that has ended is dropped
	limits := append(everyKind(5, time.Second), Per(3, time.Second).Burst(9), Per(5, time.Second).Burst(2), Per(2, time.Second).Named("n"), Unlimited(), PerSecond(0))
	now, usual, refused := int64(epoch), 0, 0
	for range many(20_000) {
		now += rng.Int64N(300_000)
		if rng.IntN(200) == 0 {
			now -= rng.Int64N(20_000_000)
		}
		brief.clock.Store(now)
		whole.clock.Store(now)
		bills := [2][]*Bill{}
		for range 1 + rng.IntN(6) {
			c := limits[rng.IntN(len(limits))].Charge(string(rune('a' + rng.IntN(4))))
			c.Cost = rng.Int64N(4)
			c.Peek = c.Cost == 0
			c.Space = [...]string{"", "s"}[rng.IntN(2)]
			if rng.IntN(50) == 0 {
				until := time.Duration(rng.IntN(2)) * time.Second
				brief.do(algo.Block, until, c)
				whole.do(algo.Block, until, c)
			}
			for i := range bills {
				bills[i] = append(bills[i], &Bill{NoReceipts: i == 0, Charges: []Charge{c}})
			}
		}
		for i, w := range []*world{brief, whole} {
			if err := w.Decide(context.Background(), bills[i]...); err != nil {
				t.Fatal(err)
			}
		}
		for i, b := range bills[0] {
			if other := bills[1][i]; b.Decision != other.Decision || b.Each[0] != other.Each[0] || (b.IDText() == "") != (other.IDText() == "") {
				t.Fatalf("%+v: brief %+v, each %+v; else %+v, each %+v", b.Charges[0], b.Decision, b.Each[0], other.Decision, other.Each[0])
			}
			if b.brief && b.Allowed {
				usual++
			}
			if !b.Allowed {
				refused++
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
	for what, bad := range map[string]Charge{
		"key": {Limit: l, Cost: 1}, "cost": {Key: "k", Limit: l, Cost: -1}, "limit": {Key: "k", Cost: 1}, "trial": {Key: "k", Limit: l, Cost: 1, Trial: 7},
	} {
		err := w.Decide(context.Background(), &Bill{NoReceipts: true, Charges: []Charge{l.Charge("k")}}, &Bill{NoReceipts: true, Charges: []Charge{bad}})
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
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
