package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// single counts bills one by one, batch as they come.
type single struct{ bills int }

func (s *single) Observe(context.Context, weir.Event) { s.bills++ }

type batch struct {
	single
	calls int
}

func (b *batch) ObserveAll(_ context.Context, bills []*weir.Bill, _ time.Duration) {
	b.calls++
	b.bills += len(bills)
}

// TestEveryObserverHearsOfABatch, in the way that it can.
func TestEveryObserverHearsOfABatch(t *testing.T) {
	one, all := new(single), new(batch)
	l, err := weir.New(weir.Options{Observer: observers{one, all}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	bill := func() *weir.Bill { return &weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("k")}} }
	if err := l.Decide(context.Background(), bill(), bill(), bill()); err != nil {
		t.Fatal(err)
	}
	if one.bills != 3 || all.bills != 3 || all.calls != 1 {
		t.Errorf("one by one %d, at once %d in %d calls", one.bills, all.bills, all.calls)
	}
}
