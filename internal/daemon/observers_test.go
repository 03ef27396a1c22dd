package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// single counts bills one by one, batch as they come.
type single struct {
	bills   int
	elapsed time.Duration // of all
}

func (s *single) Observe(_ context.Context, e weir.Event) {
	if e.Bill != nil {
		s.bills++
	}
	s.elapsed += e.Elapsed
}

type batch struct {
	single
	calls int
}

func (b *batch) ObserveAll(_ context.Context, bills []*weir.Bill, elapsed time.Duration) {
	b.calls++
	b.bills += len(bills)
	b.elapsed += elapsed
}

// TestEveryObserverHearsOfABatch, in the way that it can.
func TestEveryObserverHearsOfABatch(t *testing.T) {
	one, all, last := new(single), new(batch), new(single)
	list := observers{one, all, last}
	l, err := weir.New(weir.Options{Observer: list})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bill := func() *weir.Bill { return &weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("k")}} }
	hears := func(what string, bills, calls int) {
		t.Helper()
		if one.bills != bills || last.bills != bills || all.bills != bills || all.calls != calls {
			t.Errorf("%s: one by one %d and %d, at once %d in %d calls, want %d in %d", what, one.bills, last.bills, all.bills, all.calls, bills, calls)
		}
	}
	if err := l.Decide(context.Background(), bill(), bill(), bill()); err != nil {
		t.Fatal(err)
	}
	hears("a batch", 3, 1)
	list.Observe(context.Background(), weir.Event{Bill: bill(), Elapsed: time.Second})
	hears("and a bill by itself", 4, 1)

	*one, *last, *all = single{}, single{}, batch{}
	list.ObserveAll(context.Background(), []*weir.Bill{bill(), bill()}, time.Second)
	if one.elapsed != 2*time.Second || last.elapsed != 2*time.Second || all.elapsed != time.Second {
		t.Errorf("how long a batch took is told as %s and %s by its bills and %s at once", one.elapsed, last.elapsed, all.elapsed)
	}
}
