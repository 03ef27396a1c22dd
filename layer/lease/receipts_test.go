package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/layer/lease"
	"github.com/weirhq/weir/redisstore"
)

// lending is an instance whose store and loans are on a clock that a test moves.
func lending(t *testing.T, server *testredis.Server, us *int64) *instance {
	return start(t, server, redisstore.Options{Clock: func() int64 { return *us }},
		lease.Options{Overshoot: 100_000, Hot: 2, Now: func() time.Duration { return time.Duration(*us) * time.Microsecond }, Stepped: true})
}

var lent = []algo.Kind{algo.TokenBucket, algo.FixedWindow, algo.SlidingWindow}

// What was lent before a reset that another instance was told of is no part of the
// balance since: what is spent of it comes back to nobody.
func TestAResetElsewhereVoidsWhatWasLent(t *testing.T) {
	server, us, ctx := testredis.Start(t), int64(1_800_000_000_000_000), context.Background()
	i, other := lending(t, server, &us), lending(t, server, &us)
	defer i.stop(t)
	defer other.stop(t)
	for _, kind := range lent {
		for _, beside := range [][]weir.Charge{nil, {weir.PerMinute(100).Named("own").Charge(kind.String())}} {
			limit, key := weir.Per(10_000, 300*24*time.Hour).Using(kind), kind.String()
			if beside != nil {
				key += " beside another"
			}
			for range 10 {
				i.take(t, key, limit, 20)
				i.leases.Step()
			}
			if err := other.Reset(ctx, limit.Charge(key)); err != nil {
				t.Fatal(err)
			}
			us += 1000
			other.take(t, key, limit, 500)
			before := i.leases.Stats().Spent
			b := &weir.Bill{Charges: append([]weir.Charge{limit.Charge(key)}, beside...)}
			if err := i.Decide(ctx, b); err != nil || b.Err != nil || i.leases.Stats().Spent == before {
				t.Fatalf("%v %v %+v: the test is void", err, b.Err, b.Decision)
			}
			if err := i.Refund(ctx, b.Charges[0]); err != nil {
				t.Fatal(err)
			}
			if d, err := other.Peek(ctx, limit.Charge(key)); err != nil || d.Limit-d.Remaining != 500 {
				t.Errorf("%s: %d are counted of 500 that were taken since the reset (%v)", key, d.Limit-d.Remaining, err)
			}
		}
	}
}

// What was taken from a loan comes back as well when the rest of the loan is back.
func TestAChargeFromALoanThatIsOverCanBeRefunded(t *testing.T) {
	server, us := testredis.Start(t), int64(1_800_000_000_000_000)
	i := lending(t, server, &us)
	defer i.stop(t)
	for _, kind := range lent {
		limit, taken, back := weir.Per(10_000, 300*24*time.Hour).Using(kind), int64(0), int64(0)
		var bills []*weir.Bill
		for range 20 {
			us += 1000
			bills = append(bills, i.take(t, kind.String(), limit, 20))
			taken += 20
			i.leases.Step()
		}
		us += 3_000_000
		i.leases.Step()
		i.leases.Step()
		if s := i.leases.Stats(); s.Out != 0 || s.Spent == 0 || s.Returned == 0 {
			t.Fatalf("%+v: the test is void", s)
		}
		for _, b := range bills {
			if err := i.Refund(context.Background(), b.Charges...); err != nil {
				t.Fatal(err)
			}
			back += b.Charges[0].Receipt.Refunded
		}
		if back != taken {
			t.Errorf("%s: %d of %d came back", kind, back, taken)
		}
	}
}
