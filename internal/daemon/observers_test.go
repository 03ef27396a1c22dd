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

// TestTroubledHearOfTroubleAlone, and then of the whole batch that it came in.
func TestTroubledHearOfTroubleAlone(t *testing.T) {
	admitted := &weir.Bill{Decision: weir.Decision{Allowed: true}}
	refused := &weir.Bill{}
	unsure := &weir.Bill{Decision: weir.Decision{Allowed: true, Reason: weir.FailedOpen}, Err: &weir.StoreError{Kind: "timeout"}}
	one, all := new(single), new(batch)
	list := troubled{one, all}
	for i, bills := range [][]*weir.Bill{{admitted, admitted}, {admitted, refused}, {unsure, admitted, admitted}} {
		*one, *all = single{}, batch{}
		list.ObserveAll(context.Background(), bills, 0)
		want := 0
		if i > 0 {
			want = len(bills)
		}
		if one.bills != want || all.bills != want {
			t.Errorf("of batch %d: told %d and %d bills, want %d", i, one.bills, all.bills, want)
		}
	}
	for bill, want := range map[*weir.Bill]int{admitted: 0, refused: 1, unsure: 1} {
		*one = single{}
		list.Observe(context.Background(), weir.Event{Bill: bill})
		if one.bills != want {
			t.Errorf("of one bill, allowed %t with error %v: told %d, want %d", bill.Allowed, bill.Err, one.bills, want)
		}
	}
}
