package metrics

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// TestABatchCountsAsItsBills: a batch of bills of every sort leaves the same
// series as the bills one by one.
func TestABatchCountsAsItsBills(t *testing.T) {
	resp, http := observe.Door("resp"), observe.Door("http")
	two := make([]weir.Charge, 2)
	two[1].Trial = 2
	of := func(d weir.Decision, n any) *weir.Bill {
		b := &weir.Bill{Note: n, Decision: d, Charges: make([]weir.Charge, 1), Each: []weir.Decision{d}}
		return b
	}
	ok, limited := weir.Decision{Allowed: true, Source: "memory"}, weir.Decision{Reason: weir.Limited, Source: "memory"}
	open, local := weir.Decision{Allowed: true, Reason: weir.FailedOpen, Source: "none"}, weir.Decision{Allowed: true, Source: "local"}
	try := of(ok, note{rules: []string{"a", "a"}, try: 1})
	try.Charges, try.Each = two, []weir.Decision{ok, limited}
	peek := of(ok, &resp)
	peek.Verb = algo.Peek
	failed := of(open, &resp)
	failed.Err = &weir.StoreError{Kind: "timeout", Err: errors.New("late")}
	both := &note{rules: []string{"a", "b"}} // one note, and now one charge binds, now the other
	first, second := of(ok, both), of(ok, both)
	first.Charges, second.Charges = make([]weir.Charge, 2), make([]weir.Charge, 2)
	first.Each, second.Each = []weir.Decision{ok, ok}, []weir.Decision{ok, ok}
	second.Binding = 1
	bills := []*weir.Bill{
		peek, of(ok, &resp), of(ok, &resp), peek, of(ok, &resp), of(limited, &resp), of(limited, &resp), of(limited, &http),
		of(local, &http), failed, of(ok, nil), try, try, of(ok, note{rules: []string{"b"}}), of(ok, &resp), peek,
		first, second, second, first,
	}
	batch, single := New(Options{}), New(Options{})
	batch.ObserveAll(context.Background(), bills, 3*time.Millisecond)
	batch.ObserveAll(context.Background(), []*weir.Bill{peek, peek}, 3*time.Millisecond)
	for _, b := range append(bills, peek, peek) {
		single.Observe(context.Background(), weir.Event{Bill: b, Elapsed: 3 * time.Millisecond})
	}
	got, want := scrape(t, batch, ""), scrape(t, single, "")
	for _, series := range []map[string]string{got, want} {
		delete(series, "weir_uptime_seconds")
	}
	if !maps.Equal(got, want) || len(want) < 20 {
		t.Errorf("as a batch\n%v\none by one\n%v", got, want)
	}
}
