package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// A block outlasts what is refunded under it, for every algorithm: the key keeps
// it, and lives as long.
func TestABlockOutlastsARefund(t *testing.T) {
	h := open(t, testredis.Start(t), redisstore.Options{})
	ctx := context.Background()
	for _, limit := range everyAlgorithm {
		for _, charges := range []int{1, 2} { // the refund leaves nothing, or something
			h.do("FLUSHALL")
			first := bill(limit.Charge("k"))
			for n := range charges {
				if n == 0 {
					h.decide(first)
				} else {
					h.decide(bill(limit.Charge("k")))
				}
			}
			if err := h.Block(ctx, 48*time.Hour, limit.Charge("k")); err != nil {
				t.Fatal(err)
			}
			if err := h.Refund(ctx, first.Charges...); err != nil {
				t.Fatal(err)
			}
			after := bill(limit.Charge("k"))
			if h.decide(after); after.Allowed || after.Reason != weir.Blocked {
				t.Errorf("%s, %d charges: %+v, want blocked", limit, charges, after.Decision)
			}
			var ms int64
			for _, key := range h.keys("=k") {
				ms = max(ms, pttl(h, key))
			}
			if left := time.Duration(ms) * time.Millisecond; left < 47*time.Hour {
				t.Errorf("%s, %d charges: the key lives %v, the block two days", limit, charges, left)
			}
		}
	}
}
