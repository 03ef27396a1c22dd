package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// clocked is a store on a clock of the test's own, with its limiter.
type clocked struct {
	*house
	store *redisstore.Store
	now   int64 // µs
}

func openClocked(t *testing.T, server *testredis.Server) *clocked {
	c := &clocked{now: 1_800_000_000_000_000}
	o := redisstore.Options{Clock: func() int64 { return c.now }, Timeout: patient}
	c.house = open(t, server, o)
	store, err := redisstore.Open(server.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c.store = store
	return c
}

func (c *clocked) lend(l weir.Limit, units int64) weir.Charge {
	c.t.Helper()
	charge := l.Charge("k")
	granted, _, _, err := c.store.Lend(context.Background(), &charge, units, 1_000_000, time.Second)
	if err != nil || granted != units {
		c.t.Fatalf("%d of %d lent: %v", granted, units, err)
	}
	return charge
}

func (c *clocked) giveBack(loan weir.Charge, units int64) {
	c.t.Helper()
	if err := c.store.Return(context.Background(), &loan, units); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clocked) refund(b *weir.Bill) int64 {
	c.t.Helper()
	if err := c.Refund(context.Background(), b.Charges...); err != nil {
		c.t.Fatal(err)
	}
	return b.Charges[0].Receipt.Refunded
}

var lentAlgorithms = []weir.Limit{
	weir.Per(1_000_000, 24*time.Hour),
	weir.Per(1_000_000, 24*time.Hour).Using(algo.FixedWindow),
	weir.Per(1_000_000, 24*time.Hour).Using(algo.SlidingWindow),
}

// A hot key's loans come back several times a second for as long as it is hot.
// However many have: the next one comes back whole, and so does a refund, and
// what is remembered of them stays small.
func TestReturnsLeaveRoomForRefunds(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, limit := range lentAlgorithms[:2] {
		h.do("FLUSHALL")
		h.decide(&weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 500_000}}}) // never idle in between
		const loans = 1100
		for range loans {
			h.giveBack(h.lend(limit, 10), 4)
			h.now += 100
		}
		before := h.remaining(limit, "k")
		if spent := int64(1_000_000-500_000-6*loans) - before; spent < -2 || spent > 2 { // a bucket gains a unit
			t.Errorf("%s: %d units are missing after %d loans", limit, spent, loans)
		}
		taken := &weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 7}}}
		if h.decide(taken); h.refund(taken) != 7 {
			t.Errorf("%s: %d of 7 came back", limit, taken.Charges[0].Receipt.Refunded)
		}
		for _, key := range h.keys(":g") {
			if size, _ := strconv.Atoi(h.do("STRLEN", key)); size > 15+43*66 {
				t.Errorf("%s: the ledger has %d bytes", limit, size)
			}
		}
	}
}

// A loan comes back once, even though its time is up when it does.
func TestALoanComesBackOnce(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, limit := range lentAlgorithms {
		h.do("FLUSHALL")
		h.decide(&weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 500_000}}})
		first := h.lend(limit, 100)
		h.now += 1_500_000 // it has ended, and another begins
		h.lend(limit, 100)
		before := h.remaining(limit, "k")
		for range 2 {
			h.giveBack(first, 60)
			if got := h.remaining(limit, "k") - before; got != 60 {
				t.Errorf("%s: %d came back of 60", limit, got)
			}
		}
	}
}

// A bucket pays its debts in order, so a loan that came back moves what was
// charged after it forward: what that owed is paid earlier, and is not refunded
// out of what was charged later still. However many returns have been summed up.
func TestARefundHeedsReturns(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	limit := weir.PerSecond(10).Burst(10_000)
	for _, returns := range []int{1, 64, 65, 200} {
		h.do("FLUSHALL")
		start := h.now
		var lent []weir.Charge
		for range returns {
			lent = append(lent, h.lend(limit, 10))
		}
		taken := &weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 5}}}
		h.decide(taken)
		for _, loan := range lent {
			h.giveBack(loan, 10)
		}
		h.now = start + 600_000 // half a second pays what was taken
		h.decide(&weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 4000}}})
		if got := h.refund(taken); got != 0 {
			t.Errorf("after %d returns %d came back of what was paid", returns, got)
		}
		later := &weir.Bill{Charges: []weir.Charge{{Key: "k", Limit: limit, Cost: 5}}}
		if h.decide(later); h.refund(later) != 5 {
			t.Errorf("after %d returns %d came back of 5 that are owed", returns, later.Charges[0].Receipt.Refunded)
		}
	}
}
