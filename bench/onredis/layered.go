package onredis

import (
	"context"
	"hash/crc32"
	"strconv"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer"
	"github.com/weirhq/weir/redisstore"
)

// Layered are bills as a policy makes them: of five limits on a request one is the
// caller's own, and the others are on what callers share, a hundred tenants, three plans,
// twenty endpoints, and everybody. All are by the minute, and nothing is refused.
var Layered = []Limiter{
	{"a layered bill of five", "", openLayered(0)},
	{"a layered bill of five, max_overshoot 1%", "", openLayered(10_000)},
}

const (
	tenants   = 100
	plans     = 3
	endpoints = 20
)

func openLayered(overshoot int64) func(addr string) (func() Check, func() error, error) {
	return func(addr string) (func() Check, func() error, error) {
		store, err := redisstore.Open(single(addr), redisstore.Options{Timeout: patience})
		if err != nil {
			return nil, nil, err
		}
		stacked, err := layer.Stack(store, layer.Options{DenyCache: -1, Overshoot: overshoot})
		if err != nil {
			return nil, nil, err
		}
		l, err := weir.New(weir.Options{Store: stacked})
		if err != nil {
			return nil, nil, err
		}
		limit := func(name string, callers int64) weir.Limit {
			return weir.PerMinute(60 * perSecond * callers).Burst(burst).Named(name)
		}
		limits := [...]weir.Limit{
			limit("caller", 1), limit("tenant", 10_000), limit("plan", 1_000_000), limit("endpoint", 1_000_000), limit("everybody", 1_000_000),
		}
		return func() Check {
			bill := &weir.Bill{NoReceipts: true}
			for _, l := range limits {
				bill.Charges = append(bill.Charges, l.Charge("everybody"))
			}
			asked := 0
			return func(ctx context.Context, key string) (bool, error) {
				who := int(crc32.ChecksumIEEE([]byte(key)))
				asked++
				bill.Charges[0].Key = key
				bill.Charges[1].Key = tenantNames[who%tenants]
				bill.Charges[2].Key = planNames[who%plans]
				bill.Charges[3].Key = endpointNames[(who+asked)%endpoints]
				if err := l.Decide(ctx, bill); err != nil {
					return false, err
				}
				return bill.Allowed, bill.Err
			}
		}, l.Close, nil
	}
}

var tenantNames, planNames, endpointNames = names("tenant", tenants), names("plan", plans), names("endpoint", endpoints)

func names(what string, n int) (all []string) {
	for i := range n {
		all = append(all, what+":"+strconv.Itoa(i))
	}
	return all
}
