package memory

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer"
)

// Take charges 1 on key and reports whether it was admitted.
type Take func(key string) bool

// Limiter is one contestant.
type Limiter struct {
	Name string
	// Open returns it empty, with room for that many keys where it can be told.
	Open func(keys int) (Take, error)
}

// Every contestant gives a key few units and a large burst: so little that no
// balance is idle when its key comes by again, which would let Weir drop it, and
// so much that nothing is refused.
const (
	perSecond = 10
	burst     = 1_000_000_000
)

// limitFor is the limit among that many keys: one key alone comes by millions of
// times a second, one of ten million once in a while.
func limitFor(keys int) weir.Limit {
	if keys == 1 {
		return weir.PerSecond(perSecond).Burst(burst)
	}
	return weir.Per(1, time.Hour).Burst(50_000)
}

// The names that ratios are made of.
const (
	Weir      = "weir"
	Floor     = "floor"
	GoLimiter = "sethvargo/go-limiter"
)

// Limiters lists the contestants: Weir first, then the floor, then the rivals.
var Limiters = []Limiter{
	{Weir, openWeir},
	{Floor, openFloor},
	{GoLimiter, openGoLimiter},
	{"x/time/rate", openRate},
	{"ulule/limiter", openUlule},
	{"throttled", openThrottled},
	{"go-chi/httprate", openHTTPRate},
}

func openWeir(keys int) (Take, error) {
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{MaxBytes: roomFor(keys)})})
	if err != nil {
		return nil, err
	}
	return takeFrom(l, limitFor(keys)), nil
}

// roomFor is so much that no balance has to give way.
func roomFor(keys int) int64 { return int64(keys)*128 + 64<<20 }

func takeFrom(l *weir.Limiter, limit weir.Limit) Take {
	ctx := context.Background()
	return func(key string) bool {
		d, err := l.Allow(ctx, key, limit)
		return err == nil && d.Allowed
	}
}

func openGoLimiter(keys int) (Take, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: burst, Interval: time.Hour, InitialAlloc: keys})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := store.Take(ctx, key)
		return err == nil && ok
	}, nil
}

// openRate is the map of limiters that its users write around rate.Limiter,
// which knows no keys.
func openRate(keys int) (Take, error) {
	var mu sync.RWMutex
	limiters := make(map[string]*rate.Limiter, keys)
	return func(key string) bool {
		mu.RLock()
		l := limiters[key]
		mu.RUnlock()
		if l == nil {
			mu.Lock()
			if l = limiters[key]; l == nil {
				l = rate.NewLimiter(perSecond, burst)
				limiters[key] = l
			}
			mu.Unlock()
		}
		return l.Allow()
	}, nil
}

func openUlule(int) (Take, error) {
	l := ulule.New(ululememory.NewStore(), ulule.Rate{Period: time.Hour, Limit: burst})
	ctx := context.Background()
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached
	}, nil
}

func openThrottled(int) (Take, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: burst}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	l.SetMaxCASAttemptsLimit(1_000_000) // else it gives up on a key that others hit too
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, nil
}

// openHTTPRate asks without a handler. It writes no headers, since none of the
// others does.
func openHTTPRate(int) (Take, error) {
	l := httprate.NewRateLimiter(burst, time.Hour, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	return func(key string) bool { return !l.OnLimit(nil, r, key) }, nil
}

// Bills are one limit and five limits on a key, each decided as one bill by one
// caller.
var Bills = []Limiter{{"a bill of one", openBill(1)}, {"a bill of five", openBill(5)}}

func openBill(limits int) func(keys int) (Take, error) {
	return func(keys int) (Take, error) {
		l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{MaxBytes: roomFor(limits * keys)})})
		if err != nil {
			return nil, err
		}
		bill := &weir.Bill{}
		for i := range limits {
			bill.Charges = append(bill.Charges, limitFor(keys).Named("limit-"+strconv.Itoa(i)).Charge(""))
		}
		ctx, bills := context.Background(), []*weir.Bill{bill}
		return func(key string) bool {
			for i := range bill.Charges {
				bill.Charges[i].Key = key
			}
			return l.Decide(ctx, bills...) == nil && bill.Allowed
		}, nil
	}
}

// Refusals are charges that are refused: by memory, and by the deny cache in front
// of a store that it need not ask.
var Refusals = []Limiter{{"refused in memory", openRefused(false)}, {"refused by the deny cache", openRefused(true)}}

// RefusalWorkload is what they are compared under.
var RefusalWorkload = Workload{"10,000 keys", 10_000}

// shared makes a store in memory pass for one that others share.
type shared struct{ *weir.Memory }

func (s shared) Caps() weir.Caps {
	caps := s.Memory.Caps()
	caps.Shared, caps.Source = true, "redis"
	return caps
}

func openRefused(cached bool) func(keys int) (Take, error) {
	return func(keys int) (Take, error) {
		var store weir.Store = weir.NewMemory(weir.MemoryOptions{MaxBytes: roomFor(keys)})
		if cached {
			stacked, err := layer.Stack(shared{store.(*weir.Memory)}, layer.Options{})
			if err != nil {
				return nil, err
			}
			store = stacked
		}
		l, err := weir.New(weir.Options{Store: store})
		if err != nil {
			return nil, err
		}
		bill := &weir.Bill{Charges: []weir.Charge{weir.Per(1, 24*time.Hour).Charge("")}}
		ctx, bills := context.Background(), []*weir.Bill{bill}
		refused := func(key string) bool {
			bill.Charges[0].Key = key
			return l.Decide(ctx, bills...) == nil && !bill.Allowed
		}
		NewKeys(keys).Each(func(key string) { refused(key) })
		return refused, nil
	}
}
