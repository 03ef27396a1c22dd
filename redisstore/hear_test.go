package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// One letter may tell of two periods of a sliding window, which are one balance, and of
// one counter twice: each debit is found by the next, and none is lost or made twice.
func TestALetterOfOneBalance(t *testing.T) {
	h := openClocked(t, testredis.Start(t))
	h.now -= h.now % time.Minute.Microseconds()
	limit := weir.Per(100, time.Minute).Using(algo.SlidingWindow)
	charge, quota := limit.Charge("k"), limit.Quota()
	took := func(start, units int64) *redisstore.Consumption {
		c := h.store.Consumed(&charge, &quota, &algo.View{Start: start}, units)
		c.Incarnation, c.Recent = strings.Repeat("i", 15), true
		return &c
	}
	before := h.now - time.Minute.Microseconds()
	came, err := h.store.Hear(context.Background(), "eu", []*redisstore.Consumption{
		took(before, 40), took(h.now, 20), took(h.now, 25),
	})
	if err != nil {
		t.Fatal(err)
	}
	for c, what := range came {
		if what != redisstore.HeardDebit {
			t.Errorf("%d of %d: %d", c.Out, c.Start, what)
		}
	}
	if left := h.remaining(limit, "k"); left != 100-40-25 {
		t.Errorf("%d left, want 35", left)
	}
}
