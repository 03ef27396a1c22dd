package lease_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/layer/lease"
	"github.com/weirhq/weir/redisstore"
)

// Three instances are asked by callers that each have a limit of their own, most of
// which run dry, beside one on a tenant and one on everybody, which are lent. Each
// admitted bill is debited everywhere and each refused one nowhere: of every balance the
// store counts in the end what was admitted, and what was refunded is not in it.
func TestLayeredBillsAreAllOrNothing(t *testing.T) {
	const callers, asks, own = 24, 300, 200
	server := testredis.Start(t)
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.FixedWindow, algo.SlidingWindow} {
		t.Run(kind.String(), func(t *testing.T) {
			month := 30 * 24 * time.Hour
			mine := weir.Per(own, month).Named("own")
			tenant, all := weir.Per(50_000, month).Using(kind).Named("tenant"), weir.Per(40_000, month).Using(kind).Named("all")
			var instances []*instance
			for range 3 {
				instances = append(instances, start(t, server, redisstore.Options{}, lease.Options{Overshoot: 20_000}))
			}
			var admitted [callers]atomic.Int64
			var back atomic.Int64
			var together sync.WaitGroup
			for c := range callers {
				i := instances[c%len(instances)]
				together.Go(func() {
					for n := range asks {
						b := &weir.Bill{Charges: []weir.Charge{tenant.Charge("t" + kind.String()), mine.Charge(kind.String() + strconv.Itoa(c)), all.Charge("all" + kind.String())}}
						if err := i.Decide(context.Background(), b); err != nil || b.Err != nil {
							t.Error(err, b.Err)
							return
						}
						if !b.Allowed {
							continue
						}
						admitted[c].Add(1)
						if n%50 == 0 {
							if err := i.Refund(context.Background(), b.Charges[1:2]...); err != nil || b.Charges[1].Receipt.Refunded != 1 {
								t.Error(err, b.Charges[1].Receipt)
							}
							admitted[c].Add(-1)
							back.Add(1)
						}
					}
				})
			}
			together.Wait()
			var spent int64
			for _, i := range instances {
				spent += i.leases.Stats().Spent
				i.stop(t)
				if s := i.leases.Stats(); s.Out != 0 || s.Borrowed != s.Spent+s.Returned {
					t.Errorf("after closing: %+v", s)
				}
			}
			last := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 1})
			defer last.stop(t)
			count := func(l weir.Limit, key string) int64 {
				d, err := last.Peek(context.Background(), l.Charge(key))
				if err != nil {
					t.Fatal(err)
				}
				return d.Limit - d.Remaining
			}
			var sum int64
			for c := range callers {
				n := admitted[c].Load()
				if sum += n; count(mine, kind.String()+strconv.Itoa(c)) != n {
					t.Errorf("caller %d was admitted %d times, the store counts %d", c, n, count(mine, kind.String()+strconv.Itoa(c)))
				}
			}
			sum += back.Load() // of which only the callers' own part came back
			if spent < sum/2 {
				t.Errorf("%d units were spent from loans by %d bills of which two balances were lent: the test is void", spent, sum)
			}
			if a, b := count(tenant, "t"+kind.String()), count(all, "all"+kind.String()); a != sum || b != sum {
				t.Errorf("admitted %d (%d units from loans), the store counts %d and %d", sum, spent, a, b)
			}
		})
	}
}

// What a bill was charged from loans beside the store comes back like any other charge.
func TestALayeredBillCanBeRefunded(t *testing.T) {
	server := testredis.Start(t)
	own, all := weir.Per(1000, 30*24*time.Hour).Named("own"), weir.Per(100_000, 30*24*time.Hour).Named("all")
	now := func() time.Duration { return 0 }
	i := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 10_000, Hot: 2, Now: now, Stepped: true})
	var bills []*weir.Bill
	for n := range 120 {
		b := &weir.Bill{Charges: []weir.Charge{own.Charge(strconv.Itoa(n)), all.Charge("everybody")}}
		b.Charges[0].Cost, b.Charges[1].Cost = 2, 3
		if err := i.Decide(context.Background(), b); err != nil || b.Err != nil || !b.Allowed {
			t.Fatal(err, b.Err, b.Decision)
		}
		i.leases.Step()
		bills = append(bills, b)
	}
	if s := i.leases.Stats(); s.Spent < 100 {
		t.Fatalf("the test is void: %+v", s)
	}
	for range 2 {
		for _, b := range bills {
			if err := i.Refund(context.Background(), b.Charges...); err != nil {
				t.Fatal(err)
			}
		}
	}
	i.stop(t)
	last := start(t, server, redisstore.Options{}, lease.Options{Overshoot: 1})
	defer last.stop(t)
	for _, c := range []weir.Charge{own.Charge("7"), own.Charge("110"), all.Charge("everybody")} {
		if d, err := last.Peek(context.Background(), c); err != nil || d.Remaining != d.Limit {
			t.Errorf("%s: %d of %d after all was refunded (%v)", c.Key, d.Remaining, d.Limit, err)
		}
	}
}
