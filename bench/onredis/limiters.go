package onredis

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"
	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/layer"
	"github.com/weirhq/weir/redisstore"
)

// Check charges 1 on key.
type Check func(ctx context.Context, key string) (allowed bool, err error)

// Limiter is one contestant.
type Limiter struct {
	Name string
	Note string // what a reader of the table should know
	// Open connects to the server at addr. check is called once for each caller;
	// close ends what Open started.
	Open func(addr string) (check func() Check, close func() error, err error)
}

// Each gives a key perSecond units a second and burst at once, or where it counts
// in windows burst an hour: nothing is refused.
const (
	perSecond = 10
	burst     = 1_000_000_000
)

// pool is how many connections each go-redis client may have.
const pool = 100

// The names that ratios are made of.
const (
	Weir      = "weir"
	RedisRate = "redis_rate"
	Textbook  = "textbook script"
)

// Limiters lists the contestants, Weir first.
var Limiters = []Limiter{
	{Weir, "strict: no deny cache, no leases", openWeir(weir.PerSecond(perSecond).Burst(burst))},
	{RedisRate, "GCRA script, one call a check", openRedisRate},
	{Textbook, "HMGET, HSET, PEXPIRE in a script, one call a check", openTextbook},
	{"ulule/limiter", "counter script, one call a check", openUlule},
	{"throttled", "GCRA by read, then compare and swap", openThrottled},
	{"counter script, rueidis", "what rueidislimiter does, whose module could not be had: GET, INCRBY and an expiry in a script, auto-pipelined", openCounter},
	{"go-chi/httprate", "MGET, then INCR, under one lock for the process", openHTTPRate},
}

// Borrowing is Weir with leases for hot keys: Redis debits units by the block, and
// what was debited is spent in the process.
var Borrowing = Limiter{Weir + ", max_overshoot 1%", "leases: debited in Redis by the block, spent here", openBorrowing}

// Bills are one limit and five limits on a key, each decided as one bill.
var Bills = []Limiter{{"a bill of one", "", openBill(1)}, {"a bill of five", "", openBill(5)}}

// OnSchedule are the algorithms that are asked on schedule, and the textbook
// script last.
var OnSchedule = []Limiter{
	scheduled(algo.TokenBucket), scheduled(algo.LeakyBucket), scheduled(algo.SlidingWindow), scheduled(algo.SlidingLog),
	{Textbook, "", openTextbook},
}

func scheduled(k algo.Kind) Limiter {
	limit := weir.PerMinute(100).Using(k)
	if k == algo.LeakyBucket {
		limit = limit.Burst(100) // else it admits one at a time and refuses nearly all
	}
	return Limiter{Weir + " " + k.String(), "", openWeir(limit)}
}

func openWeir(limit weir.Limit) func(addr string) (func() Check, func() error, error) {
	return func(addr string) (func() Check, func() error, error) { return openStacked(single(addr), -1, 0, limit) }
}

func openBorrowing(addr string) (func() Check, func() error, error) {
	// So many are asked for that the usual burst would be spent in a second, and
	// what is measured would be refusals.
	return openStacked(single(addr), 0, 10_000, weir.PerSecond(1_000_000).Burst(1_000_000_000))
}

func openBill(limits int) func(addr string) (func() Check, func() error, error) {
	return func(addr string) (func() Check, func() error, error) {
		named := make([]weir.Limit, limits)
		for i := range named {
			named[i] = weir.PerSecond(perSecond).Burst(burst).Named("limit-" + strconv.Itoa(i))
		}
		return openStacked(single(addr), -1, 0, named...)
	}
}

// single is the URL of one server.
func single(addr string) string { return "redis://" + addr + "/0" }

// openStacked opens Weir's store behind its layers, and charges each key under
// all of the limits in one bill.
func openStacked(url string, denyCache int, overshoot int64, limits ...weir.Limit) (func() Check, func() error, error) {
	store, err := redisstore.Open(url, redisstore.Options{Timeout: patience})
	if err != nil {
		return nil, nil, err
	}
	stacked, err := layer.Stack(store, layer.Options{DenyCache: denyCache, Overshoot: overshoot})
	if err != nil {
		return nil, nil, err
	}
	l, err := weir.New(weir.Options{Store: stacked})
	if err != nil {
		return nil, nil, err
	}
	for _, limit := range limits {
		if err := limit.Check(); err != nil {
			return nil, nil, err
		}
	}
	return func() Check {
		bills := []*weir.Bill{{NoReceipts: true}} // no rival can refund either
		for _, limit := range limits {
			bills[0].Charges = append(bills[0].Charges, limit.Charge(""))
		}
		return func(ctx context.Context, key string) (bool, error) {
			for i := range bills[0].Charges {
				bills[0].Charges[i].Key = key
			}
			if err := l.Decide(ctx, bills...); err != nil {
				return false, err
			}
			return bills[0].Allowed, bills[0].Err
		}
	}, l.Close, nil
}

// patience is how long a check may take: the rivals wait for seconds, so Weir is
// not to answer in place of a server that is merely busy.
const patience = 3 * time.Second

func client(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: pool, DisableIdentity: true})
}

// shared is a check that all callers use.
func shared(c Check) func() Check { return func() Check { return c } }

func openRedisRate(addr string) (func() Check, func() error, error) {
	c := client(addr)
	l := redis_rate.NewLimiter(c)
	limit := redis_rate.Limit{Rate: perSecond, Burst: burst, Period: time.Second}
	return shared(func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, limit)
		return err == nil && r.Allowed > 0, err
	}), c.Close, nil
}

func openUlule(addr string) (func() Check, func() error, error) {
	c := client(addr)
	store, err := ululeredis.NewStore(c)
	if err != nil {
		return nil, nil, err
	}
	l := ulule.New(store, ulule.Rate{Period: time.Hour, Limit: burst})
	return shared(func(ctx context.Context, key string) (bool, error) {
		r, err := l.Get(ctx, key)
		return err == nil && !r.Reached, err
	}), c.Close, nil
}

func openThrottled(addr string) (func() Check, func() error, error) {
	c := client(addr)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: burst}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, nil, err
	}
	return shared(func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}), c.Close, nil
}

func openHTTPRate(addr string) (func() Check, func() error, error) {
	c := client(addr)
	var failed error // set under the limiter's own lock
	counter := httprateredis.WithRedisLimitCounter(&httprateredis.Config{
		Client: c, FallbackDisabled: true, OnError: func(err error) { failed = err },
	})
	l := httprate.NewRateLimiter(burst, time.Hour, counter, httprate.WithResponseHeaders(httprate.ResponseHeaders{}),
		httprate.WithErrorHandler(func(http.ResponseWriter, *http.Request, error) {}))
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		return nil, nil, err
	}
	return shared(func(_ context.Context, key string) (bool, error) {
		return !l.OnLimit(nil, r, key), failed
	}), c.Close, nil
}

// textbook is the token bucket script that tutorials teach: a hash of tokens and
// a time in seconds, in floats, with the client's clock.
var textbook = goredis.NewScript(`
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local rate, burst, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens = tonumber(bucket[1]) or burst
local at = tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + (now - at) * rate)
local allowed = 0
if tokens >= 1 then
  tokens = tokens - 1
  allowed = 1
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], 60000)
return {allowed, math.floor(tokens)}
`)

func openTextbook(addr string) (func() Check, func() error, error) {
	c := client(addr)
	return shared(func(ctx context.Context, key string) (bool, error) {
		now := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
		r, err := textbook.Run(ctx, c, []string{"textbook:" + key}, perSecond, burst, now).Int64Slice()
		if err != nil {
			return false, err
		}
		return len(r) == 2 && r[0] == 1, nil
	}), c.Close, nil
}

// counter is a window counter with its end in a key beside it.
var counter = rueidis.NewLuaScript(`
local ends = tonumber(redis.call('GET', KEYS[2]))
if not ends or ends < tonumber(ARGV[3]) then
  ends = ARGV[2]
  redis.call('SET', KEYS[1], 0, 'PXAT', ends + 1000)
  redis.call('SET', KEYS[2], ends, 'PXAT', ends + 1000)
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), ends}
`)

func openCounter(addr string) (func() Check, func() error, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, nil, err
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, nil, fmt.Errorf("rueidis: %w", err)
	}
	return shared(func(ctx context.Context, key string) (bool, error) {
		now := time.Now()
		keys := []string{"counter:{" + key + "}", "counter:{" + key + "}:ex"}
		args := []string{"1", strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10), strconv.FormatInt(now.UnixMilli(), 10)}
		r, err := counter.Exec(ctx, c, keys, args).ToArray()
		if err != nil || len(r) != 2 {
			return false, fmt.Errorf("counter script: %w", err)
		}
		used, err := r[0].AsInt64()
		return used <= burst, err
	}), func() error { c.Close(); return nil }, nil
}
