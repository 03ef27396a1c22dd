package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

func openCluster(t *testing.T, c *testredis.Cluster) *weir.Limiter {
	t.Helper()
	store, err := redisstore.Open(c.URL(), redisstore.Options{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// On a cluster of three masters: single bills of many groups, batches over all of
// them, and bills that span groups, which must never over-admit.
func TestACluster(t *testing.T) {
	l := openCluster(t, testredis.StartCluster(t, 3))
	ctx := context.Background()
	limit := weir.Per(3, time.Hour)

	t.Run("many groups in one call", func(t *testing.T) {
		var bills []*weir.Bill
		for i := range 200 {
			bills = append(bills, bill(limit.Charge(fmt.Sprint("user:", i))), bill(limit.Charge(fmt.Sprint("user:", i))))
		}
		if err := l.Decide(ctx, bills...); err != nil {
			t.Fatal(err)
		}
		left := map[int64]int{}
		for _, b := range bills {
			if b.Err != nil || !b.Allowed || b.Source != "redis" {
				t.Fatalf("%+v %v", b.Decision, b.Err)
			}
			left[b.Remaining]++
		}
		if left[2] != 200 || left[1] != 200 {
			t.Errorf("remaining %v, want 2 and 1 for each of 200", left)
		}
	})

	t.Run("a bill over several groups is all or nothing", func(t *testing.T) {
		ip, tenant := limit.Charge("198.51.100.7"), weir.Per(10, time.Hour).Charge("acme")
		everyone := weir.Per(100, time.Hour).Using(algo.SlidingWindow).Charge("all")
		for i := range 5 {
			b := bill(ip, tenant, everyone)
			if err := l.Decide(ctx, b); err != nil || b.Err != nil {
				t.Fatal(err, b.Err)
			}
			if b.Allowed != (i < 3) || b.Binding != 0 {
				t.Errorf("bill %d: %+v", i, b.Decision)
			}
		}
		d, err := l.Peek(ctx, tenant)
		if err != nil || d.Remaining != 7 {
			t.Errorf("the tenant has %d left, want 7: refused bills must not debit it", d.Remaining)
		}
	})

	t.Run("racing bills never over-admit and give back what they took", func(t *testing.T) {
		const callers, each = 16, 40
		scarce, plenty := weir.Per(50, time.Hour).Charge("scarce"), weir.Per(1_000_000, time.Hour).Using(algo.FixedWindow).Charge("plenty")
		other := weir.Per(60, time.Hour).Charge("other")
		var admitted atomic.Int64
		var racing sync.WaitGroup
		for range callers {
			racing.Go(func() {
				for range each {
					b := bill(plenty, scarce, other)
					if err := l.Decide(ctx, b); err != nil || b.Err != nil {
						t.Error(err, b.Err)
					} else if b.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		racing.Wait()
		if admitted.Load() > 50 || admitted.Load() < 45 {
			t.Errorf("%d admitted of 50", admitted.Load())
		}
		d, err := l.Peek(ctx, plenty)
		if err != nil || 1_000_000-d.Remaining != admitted.Load() {
			t.Errorf("plenty was charged %d times for %d admitted", 1_000_000-d.Remaining, admitted.Load())
		}
	})

	t.Run("trials are settled after the verdict", func(t *testing.T) {
		live, shadow, try := weir.Per(1, time.Hour).Charge("live"), weir.Per(5, time.Hour).Charge("shadow"), weir.Per(2, time.Hour).Charge("try")
		shadow.Trial, try.Trial = -1, 1
		var allowed int
		for range 4 {
			b := bill(live, shadow, try)
			if err := l.Decide(ctx, b); err != nil || b.Err != nil {
				t.Fatal(err, b.Err)
			}
			if b.Allowed {
				allowed++
			}
		}
		left := func(c weir.Charge) int64 {
			c.Trial = 0
			d, err := l.Peek(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		if allowed != 1 || left(shadow) != 4 || left(try) != 0 {
			t.Errorf("%d admitted, shadow %d left, try %d left; want 1, 4, 0", allowed, left(shadow), left(try))
		}
	})

	t.Run("verbs", func(t *testing.T) {
		b := bill(limit.Charge("a"), limit.Charge("b"))
		if err := l.Decide(ctx, b); err != nil || !b.Allowed {
			t.Fatal(err)
		}
		if err := l.Refund(ctx, b.Charges...); err != nil || b.Charges[0].Receipt.Refunded != 1 {
			t.Errorf("refund: %v, %+v", err, b.Charges[0].Receipt)
		}
		if err := l.Reset(ctx, b.Charges...); err != nil {
			t.Error(err)
		}
	})
}
