package weir

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// cutting is a store whose limits are cut to a part, as a layer may do.
type cutting struct {
	Store
	units int64
	again int64
	away  error
}

func (c *cutting) Apply(ctx context.Context, bills []*Bill) {
	for _, b := range bills {
		for i := range b.balances {
			bal := &b.balances[i]
			bal.Quota.N, bal.Quota.Capacity, bal.Again = c.units, c.units, c.again
			if bal.Never = bal.Quota.TooLarge(bal.Cost); bal.Quota.Kind.Bucket() && !bal.Never {
				bal.Debit = bal.Quota.Debit(bal.Cost)
			}
		}
		b.Err = c.away
	}
	if c.away == nil {
		c.Store.Apply(ctx, bills)
	}
}

// TestAPartOfALimitIsAskedAgain: what does not fit into a part that may grow is
// limited for as long as the layer says, and what the limit refuses for good is not.
func TestAPartOfALimitIsAskedAgain(t *testing.T) {
	down := &StoreError{Kind: "connection", Unreachable: true}
	for _, kind := range []algo.Kind{algo.TokenBucket, algo.LeakyBucket, algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog} {
		for _, one := range []struct {
			what         string
			units, again int64
			away         error
			failure      Failure
			cost         int64
			allowed      bool
			reason       Reason
			retry        time.Duration
		}{
			{"a part of nothing", 0, 1e6, nil, Local, 1, false, Limited, time.Second},
			{"a part of nothing that stays", 0, 0, nil, Local, 1, false, Limited, Never},
			{"more than the part", 3, 2e6, nil, Local, 4, false, Limited, 2 * time.Second},
			{"more than the part that stays", 3, 0, nil, Local, 4, false, TooLarge, Never},
			{"within the part", 3, 2e6, nil, Local, 3, true, OK, 0},
			{"without the store, a part of nothing", 0, 1e6, down, Local, 1, false, Limited, time.Second},
			{"open without the store, a part of nothing", 0, 1e6, down, Open, 1, true, FailedOpen, 0},
			{"closed without the store, a part of nothing", 0, 1e6, down, Closed, 1, false, FailedClosed, closedRetry},
			{"open without the store, more than the limit", 3, 1e6, down, Open, 99, false, TooLarge, Never},
		} {
			limit := PerMinute(10).Using(kind).OnFailure(one.failure)
			if kind == algo.LeakyBucket {
				limit = limit.Burst(9)
			}
			l, err := New(Options{Store: &cutting{NewMemory(MemoryOptions{}), one.units, one.again, one.away}})
			if err != nil {
				t.Fatal(err)
			}
			d, err := l.AllowN(context.Background(), "k", one.cost, limit)
			if err != nil || d.Allowed != one.allowed || d.Reason != one.reason || d.RetryAfter != one.retry {
				t.Errorf("%s: %s: %+v, %v", kind, one.what, d, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAPartIsSharedAmongInstances: without the store each has its part of the part.
func TestAPartIsSharedAmongInstances(t *testing.T) {
	away := &StoreError{Kind: "connection", Unreachable: true}
	l, err := New(Options{Store: &cutting{NewMemory(MemoryOptions{}), 6, 1e6, away}, Instances: func() int { return 2 }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if d, err := l.Allow(context.Background(), "k", PerMinute(60).OnFailure(Share)); err != nil || d.Limit != 3 || d.Remaining != 2 {
		t.Errorf("%+v, %v; want 2 left of 3", d, err)
	}
}

// TestACutLimitKeepsItsBalance: a part is what its quota says, and nothing else of
// the limit changes.
func TestACutLimitKeepsItsBalance(t *testing.T) {
	for _, text := range []string{"30/min burst=60 name=a", "30/min algorithm=leaky_bucket burst=59", "30/day algorithm=fixed_window tz=Asia/Tokyo", "30/min algorithm=sliding_log"} {
		l, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		q := l.Quota()
		q.N, q.Capacity = q.N/3, q.Capacity/3
		part := l.Cut(&q)
		got := part.Quota()
		if got.N != 10 || l.Kind().Bucket() && got.Capacity != 20 || !part.sameBalance(&l) || part.Failure() != l.Failure() {
			t.Errorf("%s: cut to %+v is %s", text, q, part)
		}
		if whole := l.Quota(); whole.N != 30 {
			t.Errorf("%s was changed", text)
		}
	}
}
