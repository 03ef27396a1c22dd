package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// A store that has no idea of its server's clock sends calendar periods that do
// not hold it. It learns, and asks again: the caller sees nothing of it.
func TestWrongPeriodsAreAskedAgain(t *testing.T) {
	daily, err := weir.ParseLimit("10/day algorithm=fixed_window tz=Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const year = 366 * 24 * 3600 * 1e6
	cluster := testredis.StartCluster(t, 1)
	for name, url := range map[string]string{"single": testredis.Start(t).URL(), "cluster": cluster.URL()} {
		store, err := redisstore.Open(url, redisstore.Options{Timeout: patient})
		if err != nil {
			t.Fatal(err)
		}
		l := limiterOn(t, store)
		other := weir.PerSecond(100).Charge("another")
		first := &weir.Bill{Charges: []weir.Charge{daily.Charge("k"), other}}
		for i := range 3 {
			store.MisreadClock(year)
			if err := l.Decide(context.Background(), first); err != nil || first.Err != nil {
				t.Fatalf("%s, bill of two: %v %v", name, err, first.Err)
			}
			store.MisreadClock(year)
			b := bill(daily.Charge("k"))
			if err := l.Decide(context.Background(), b); err != nil || b.Err != nil || b.Remaining != int64(8-2*i) {
				t.Errorf("%s: %v %v, remaining %d, want %d", name, err, b.Err, b.Remaining, 8-2*i)
			}
			first.Charges = []weir.Charge{daily.Charge("k"), other}
		}
		taken := bill(daily.Charge("k"))
		if err := l.Decide(context.Background(), taken); err != nil {
			t.Fatal(err)
		}
		store.MisreadClock(year)
		if err := l.Refund(context.Background(), taken.Charges...); err != nil || taken.Charges[0].Receipt.Refunded != 1 {
			t.Errorf("%s, refund: %v, %d came back", name, err, taken.Charges[0].Receipt.Refunded)
		}
	}
}

// Who gives up while the flight is out gets the context's error, and not an
// answer that some limit states for an outage; that it may be charged is counted.
func TestAContextThatEndsInFlightIsItsError(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	limit := weir.Per(100, time.Hour).OnFailure(weir.Closed)
	h.allow("warm", limit)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	b := &weir.Bill{Verb: algo.Take, Charges: []weir.Charge{limit.Charge("k")}}
	err := h.Decide(ctx, b)
	var se *weir.StoreError
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		t.Errorf("got %v and %+v, want the context's error", err, b.Decision)
	case !errors.As(b.Err, &se) || se.Kind != "canceled" || !se.Unknown:
		t.Errorf("the bill says %v, want canceled and unknown", b.Err)
	}
	if n := h.store.Unknown(); n != 1 {
		t.Errorf("%d unknown, want 1", n)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "the flight has landed", func() bool { return h.remaining(limit, "k") == 99 })
	if d := h.allow("k", limit); !d.Allowed || d.Remaining != 98 {
		t.Errorf("afterwards: %+v", d)
	}
}
