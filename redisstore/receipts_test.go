package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
)

// Receipts late and in odd company: less may come back than is owed, never more.

func (c *clocked) take(l weir.Limit, cost int64) *weir.Bill {
	c.t.Helper()
	b := bill(weir.Charge{Key: "k", Limit: l, Cost: cost})
	if c.decide(b); !b.Allowed {
		c.t.Fatalf("%+v", b.Decision)
	}
	return b
}

// What a refund brought forward stays so when a later one leaves the bucket idle: a
// receipt of what was paid off before gives nothing back.
func TestAnIdleBucketsReceiptsArePaid(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, l := range []weir.Limit{weir.PerSecond(1).Burst(30), weir.PerSecond(1).Burst(30).Using(algo.LeakyBucket)} {
		h.do("FLUSHALL")
		first, second := h.take(l, 10), h.take(l, 10) // the second is due after 20 s
		h.now += 1_000_000
		if got := h.refund(first); got != 9 { // and now after 11 s
			t.Fatalf("%d came back", got)
		}
		h.now += 11_000_000
		third := h.take(l, 10)
		h.refund(third)
		h.take(l, 10)
		if got := h.refund(second); got != 0 {
			t.Errorf("%s: %d came back of what was paid off", l, got)
		}
	}
}

// A receipt from ahead of a clock that went back, of a balance that was forgotten.
func TestAReceiptFromAheadIsVoid(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, l := range everyAlgorithm {
		h.do("FLUSHALL")
		old := h.take(l, 5)
		h.do("FLUSHALL") // its time to live is over
		h.now -= (2 * time.Hour).Microseconds()
		h.take(l, 5)
		if got := h.refund(old); got != 0 {
			t.Errorf("%s: %d came back", l, got)
		}
	}
}

// The same where a refund had left nothing that is owed.
func TestAReceiptFromAheadOfAnIdleBalance(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	l := weir.PerSecond(1).Burst(10)
	h.do("FLUSHALL")
	old := h.take(l, 5)
	h.now += 20_000_000
	h.refund(h.take(l, 5))
	h.now -= (2 * time.Hour).Microseconds()
	h.take(l, 5)
	if got := h.refund(old); got != 0 {
		t.Errorf("%s: %d came back", l, got)
	}
}

// A balance may stand ahead of the clock by some seconds: a reset voids its receipts
// up to where it stands.
func TestAResetOfABalanceAhead(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, l := range everyAlgorithm {
		h.do("FLUSHALL")
		h.take(l, 1)
		h.now -= 5_000_000
		old := h.take(l, 5)
		if err := h.Reset(context.Background(), l.Charge("k")); err != nil {
			t.Fatal(err)
		}
		h.now += 6_000_000
		h.take(l, 5)
		if got := h.refund(old); got != 0 {
			t.Errorf("%s: %d came back of what was before the reset", l, got)
		}
	}
}

// A receipt is good once, also where its note had passed and the clock then goes
// back by less than is believed.
func TestRefundsAreNotedForAsLongAsAClockMayStep(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	for _, l := range []weir.Limit{weir.PerSecond(1).Burst(40), weir.PerSecond(1).Burst(40).Using(algo.LeakyBucket)} {
		h.do("FLUSHALL")
		start := h.now
		old := h.take(l, 10) // due after 10 s
		h.now = start + 1_000_000
		h.refund(old)
		h.now = start + 4_000_000
		other := h.take(l, 20)
		h.now = start + 10_500_000
		other.Charges[0].Cost = 1
		h.refund(other)
		h.now = start + 5_000_000
		if got := h.refund(old); got != 0 {
			t.Errorf("%s: a receipt was good twice: %d", l, got)
		}
	}
}

// A limit that was changed and changed back read anew what was owed in between: a
// receipt from before gives nothing back, and those from after it do.
func TestALimitThatWasChangedBack(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	slow, fast := weir.Per(10, time.Hour), weir.Per(1000, time.Hour)
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.LeakyBucket} {
		h.do("FLUSHALL")
		slow, fast := slow.Using(kind), fast.Using(kind)
		if kind == algo.LeakyBucket {
			slow, fast = slow.Burst(9), fast.Burst(999)
		}
		old := h.take(slow, 10)
		h.now += time.Minute.Microseconds()
		h.take(fast, 1)
		h.now += (5 * time.Minute).Microseconds()
		if left := h.remaining(slow, "k"); left != 10 {
			t.Fatalf("%s: %d left", kind, left)
		}
		anew := h.take(slow, 5)
		if got := h.refund(old); got != 0 {
			t.Errorf("%s: %d came back of what was paid off", kind, got)
		}
		if got := h.refund(anew); got != 5 {
			t.Errorf("%s: %d came back of 5 that are owed", kind, got)
		}
	}
}
