package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// repay debits units under an id, as a Limiter does after an outage.
func (h *house) repay(id uint64, limit weir.Limit, key string, units int64) {
	h.t.Helper()
	c := limit.Charge(key)
	c.Cost, c.Receipt.ID = units, id
	b := &weir.Bill{Verb: algo.Repay, Charges: []weir.Charge{c}}
	if err := b.Check(); err != nil {
		h.t.Fatal(err)
	}
	h.store.Apply(context.Background(), []*weir.Bill{b})
	if b.Err != nil {
		h.t.Fatal(b.Err)
	}
}

// An id is debited once, whoever sends it how often, and never below empty.
func TestADebtIsDebitedOnceByItsID(t *testing.T) {
	h := open(t, testredis.Start(t), redisstore.Options{})
	daily, err := weir.ParseLimit("10/day algorithm=fixed_window tz=Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	for i, limit := range append(everyAlgorithm, daily) {
		key := fmt.Sprint("k", i)
		h.repay(1, limit, key, 3)
		h.repay(1, limit, key, 3)
		if got := h.remaining(limit, key); got != 7 {
			t.Errorf("%s: %d left of 10, want 7", limit, got)
		}
		h.repay(2, limit, key, 2)
		h.repay(1, limit, key, 3)
		if got := h.remaining(limit, key); got != 5 {
			t.Errorf("%s: %d left of 10, want 5", limit, got)
		}
		h.repay(3, limit, key, 9)
		d := h.allow(key, limit)
		if d.Allowed || d.RetryAfter <= 0 {
			t.Errorf("%s: %+v, want an empty balance", limit, d)
		}
		if limit.Kind().Bucket() && d.RetryAfter > 6*time.Minute {
			t.Errorf("%s: the next unit comes in %s: the balance was driven below empty", limit, d.RetryAfter)
		}
		h.repay(4, limit, key, 1)
		// What came back meanwhile may be debited, a thousandth of a unit.
		if again := h.allow(key, limit); again.RetryAfter > d.RetryAfter+time.Minute {
			t.Errorf("%s: an empty balance was debited: %s, then %s", limit, d.RetryAfter, again.RetryAfter)
		}
	}
}

// What an instance admitted by itself in an outage is missing from the balance
// afterwards: limits do not begin anew. Only what it admitted, only for limits
// that were answered so, once.
func TestAnOutageIsPaidFor(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{Timeout: 100 * time.Millisecond})
	ten := weir.Per(10, time.Hour)
	until(t, "redis decides", func() bool { return h.allow("k", ten).Source == "redis" })
	before := h.remaining(ten, "k")
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	until(t, "the breaker refuses", func() bool {
		h.allow("warm", weir.PerSecond(1e6).OnFailure(weir.Open))
		return !h.store.Health().Up
	})
	ask := func(limit weir.Limit) weir.Decision {
		until(t, "nobody waits", func() bool { return h.allow("idle", ten.OnFailure(weir.Closed)).Source == "none" })
		return h.allow("k", limit)
	}
	for range 4 {
		if d := ask(ten); !d.Allowed || d.Source != "local" {
			t.Fatalf("%+v", d)
		}
	}
	ask(ten.Named("open").OnFailure(weir.Open))
	share := ten.Named("share").OnFailure(weir.Share)
	ask(share)
	if owed, _, _ := h.Debts(); owed != 5 {
		t.Errorf("%d owed, want 5", owed)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "all is paid", func() bool { owed, settled, _ := h.Debts(); return owed == 0 && settled == 5 })
	for _, want := range []struct {
		limit weir.Limit
		left  int64
	}{{ten, before - 4}, {share, 9}, {ten.Named("open"), 10}} {
		if got := h.remaining(want.limit, "k"); got != want.left {
			t.Errorf("%s: %d left, want %d", want.limit, got, want.left)
		}
	}
}

// A reset and a step of the clock leave ids known: a debt whose outcome nobody
// knows is sent again after either, and is debited once.
func TestIDsOutliveResetsAndSteps(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for i, limit := range everyAlgorithm {
		key := fmt.Sprint("k", i)
		h.repay(1, limit, key, 3)
		if err := h.Reset(context.Background(), weir.Charge{Key: key, Limit: limit}); err != nil {
			t.Fatal(err)
		}
		h.repay(1, limit, key, 3)
		if got := h.remaining(limit, key); got != 10 {
			t.Errorf("%s: %d left of 10 after a reset", limit, got)
		}
		h.repay(2, limit, key, 3)
		h.now -= (3 * time.Hour).Microseconds()
		h.allow(key, limit) // meets the step
		before := h.remaining(limit, key)
		h.repay(2, limit, key, 3)
		if got := h.remaining(limit, key); got != before {
			t.Errorf("%s: %d left after a step of the clock, want %d", limit, got, before)
		}
	}
}

// However many debts were debited, and however many ids are known, refunds go on,
// and what is remembered stays small.
func TestDebtsLeaveRoomForRefunds(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	limit := weir.Per(1_000_000, 24*time.Hour)
	const most = 4096
	for id := range uint64(1100) {
		h.repay(id+1, limit, "k", 1)
	}
	taken := &weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 7}}}
	if h.decide(taken); h.refund(taken) != 7 {
		t.Errorf("%d of 7 came back", taken.Charges[0].Receipt.Refunded)
	}
	known := h.keys(":d")
	if len(known) != 1 {
		t.Fatalf("%d keys of ids", len(known))
	}
	h.do("APPEND", known[0], strings.Repeat("\xff", 8*(most-1100)))
	h.repay(2000, limit, "k", 1) // makes it forget the first
	before := h.remaining(limit, "k")
	h.repay(2, limit, "k", 1)
	h.repay(2000, limit, "k", 1)
	if got := h.remaining(limit, "k"); got != before {
		t.Errorf("%d left, want %d", got, before)
	}
	if size := h.do("STRLEN", known[0]); size != fmt.Sprint(8*most) {
		t.Errorf("the ids have %s bytes", size)
	}
	if life := h.do("PTTL", known[0]); life < "3500000" || len(life) != 7 {
		t.Errorf("the ids live %s ms", life)
	}
}

// A sliding window that holds next to nothing, for what the period before used, is
// debited that much and no more: whoever pays a debt is not punished beyond.
func TestADebtLeavesASlidingWindowEmpty(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	limit := weir.Per(100, time.Minute).Using(algo.SlidingWindow)
	for _, passed := range []time.Duration{0, 6 * time.Second, 10 * time.Second, 59 * time.Second} {
		h.do("FLUSHALL")
		h.now -= h.now % time.Minute.Microseconds()
		h.decide(bill(weir.Charge{Key: "k", Limit: limit, Cost: 100}))
		h.now += (time.Minute + passed).Microseconds()
		left := h.remaining(limit, "k")
		h.repay(1, limit, "k", 3*left/2+10)
		if got := h.remaining(limit, "k"); got != 0 {
			t.Errorf("after %s: %d of %d left", passed, got, left)
		}
		if d := h.allow("k", limit); d.RetryAfter > time.Second {
			t.Errorf("after %s: the next unit comes in %s: the window was driven below empty", passed, d.RetryAfter)
		}
	}
}
