package lease_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/layer/lease"
	"github.com/weirhq/weir/redisstore"
)

// Two hot balances that take turns in one slice of a purse: what one leaves there is
// lent again, and receipts are due for what was spent and no more. Units that time
// has given back do not come back a second time.
func TestASliceThatIsPutBackOwesNothing(t *testing.T) {
	server := testredis.Start(t)
	var us atomic.Int64
	us.Store(1_800_000_000_000_000)
	now := func() time.Duration { return time.Duration(us.Load()) * time.Microsecond }
	const perMinute = 60_000 // a unit is a millisecond
	limit := weir.PerMinute(perMinute)
	i := start(t, server, redisstore.Options{Clock: us.Load}, lease.Options{Overshoot: 100_000, Hot: 2, Now: now, Stepped: true})
	defer i.stop(t)
	take := func(key string, cost int64) *weir.Bill {
		b := i.take(t, key, limit, cost)
		i.leases.Step()
		return b
	}
	// Of so many keys, two share a slice whatever the hash is seeded with.
	var keys []string
	for k := range 65 {
		keys = append(keys, fmt.Sprint("k", k))
	}
	for range 4 {
		for _, key := range keys {
			take(key, 10)
		}
	}
	spent := map[string]int64{}
	last := map[string]*weir.Bill{}
	began := us.Load()
	for range 40 {
		for _, key := range keys {
			if b := take(key, 1); b.Source == "lease" {
				last[key] = b
			}
			spent[key]++
		}
	}
	if len(last) == 0 {
		t.Fatal("nothing was lent: the test is void")
	}
	for key, b := range last {
		owed := spent[key] + 40
		if due := b.Charges[0].Receipt.Due - began; due > owed*1000*2 {
			t.Errorf("%s: %d units were spent, and the last is owed for %d ms", key, owed, due/1000)
		}
	}
}
