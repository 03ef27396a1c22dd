// Package regional shows what a limit over several regions does: the real engine
// and the real exchange, over stores in memory and ways with a lag, on a virtual
// clock. It is the same at every run.
package regional

import (
	"context"
	"fmt"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/regions"
	"github.com/weirhq/weir/sim"
)

// Options says what to simulate. The zero values are those of the defaults below.
type Options struct {
	Regions   int           // 2 to 64; 3 if 0
	Lag       time.Duration // one way; 120 ms if 0
	Interval  time.Duration // between messages; 200 ms if 0
	Partition time.Duration // in the middle, every region from every other; 0 for none
	Limit     weir.Limit    // a token bucket; 100/s if zero
	Length    time.Duration // of the traffic; 30 s and the partition if 0

	blind bool // planted: no partition is noticed
	deaf  bool // planted: nothing is heard

	late time.Duration // what a message takes beyond Lag
}

// trip is what a message takes one way.
func (o *Options) trip() time.Duration { return o.Lag + o.late }

// Report is what came of it.
type Report struct {
	Regions int   `json:"regions"`
	Scope   []Row `json:"scope"`
}

// Row is what came of one scope. Every region asks for one and a half times what
// the limit grants all of them.
type Row struct {
	Scope       string `json:"scope"`
	Bound       int64  `json:"bound"`        // what is promised of Overshoot
	Admitted    int64  `json:"admitted"`     // by all regions
	Overshoot   int64  `json:"overshoot"`    // the most admitted in any span beyond what the limit admits in it
	ConvergedMS int64  `json:"converged_ms"` // from the last admission until every region knew of all

	Beyond []int64 `json:"-"` // every Step, what was admitted beyond the limit so far
}

// Step is the time between two of Row.Beyond.
const Step = 100 * time.Millisecond

const (
	space = "rule/sim/all"
	key   = "everyone"
	tick  = 5 * time.Millisecond
	limit = 10 * time.Minute
)

// Fill puts in the defaults, and reports what cannot be simulated as an
// *weir.InputError that names the field.
func (o *Options) Fill() error {
	if o.Regions == 0 {
		o.Regions = 3
	}
	if o.Lag == 0 {
		o.Lag = 120 * time.Millisecond
	}
	if o.Interval == 0 {
		o.Interval = 200 * time.Millisecond
	}
	if o.Limit == (weir.Limit{}) {
		o.Limit = weir.PerSecond(100)
	}
	if o.Length == 0 {
		o.Length = 30*time.Second + o.Partition
	}
	field := func(name, problem string) error { return &weir.InputError{Field: name, Problem: problem} }
	switch {
	case o.Regions < 2 || o.Regions > 64:
		return field("regions", "must lie between 2 and 64")
	case o.Lag < tick || o.Lag > 10*time.Second:
		return field("lag", "must lie between 5ms and 10s")
	case o.Interval < tick || o.Interval > 10*time.Second:
		return field("interval", "must lie between 5ms and 10s")
	case o.Partition < 0 || o.Partition > limit:
		return field("partition", "must lie between 0 and 10m")
	case o.Length < 0 || o.Length > 3*limit:
		return field("length", "must lie between 0 and 30m")
	case o.Limit.IsUnlimited() || o.Limit.Kind() != algo.TokenBucket:
		return field("limit", "regions are shown for a token bucket, such as \"100/s burst=200\"")
	}
	if err := o.Limit.Check(); err != nil {
		return err
	}
	if perTick := int64(o.Regions) * o.Limit.Units() * int64(tick) / int64(o.Limit.Period()); perTick > 100_000 {
		return field("limit", "grants too much to simulate; use a smaller rate")
	}
	return nil
}

// Run simulates every scope.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Fill(); err != nil {
		return nil, err
	}
	r := &Report{Regions: o.Regions}
	for _, scope := range []policy.Scope{policy.ScopeRegion, policy.ScopeGlobal, policy.ScopeShare} {
		row, err := run(ctx, o, scope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", scope, err)
		}
		r.Scope = append(r.Scope, row)
	}
	return r, nil
}

// bound is what is promised of the overshoot.
func (o *Options) bound(scope policy.Scope) int64 {
	figures := policy.Regions{Count: o.Regions, Interval: o.Interval, Lag: o.Lag}
	switch scope {
	case policy.ScopeShare:
		return 0
	case policy.ScopeRegion: // each has its own limit for as long as it likes
		figures.Interval, figures.Lag = 0, o.Length
		return figures.Overshoot(o.Limit)
	}
	once := figures.Overshoot(o.Limit)
	if o.Partition > 0 {
		return 2 * once
	}
	return once
}

// site is one region.
type site struct {
	name     string
	limiter  *weir.Limiter
	exchange *regions.Exchange
	keeper   *regions.ShareKeeper
	record   string
	said     map[string]string
	saidAt   map[string]time.Duration
	asked    map[string]int64
	due      float64 // arrivals that are due, in whole ones and a part
}

func closeAll(sites []*site) {
	for _, s := range sites {
		_ = s.limiter.Close() // a store in memory: nothing can fail
	}
}

// open makes the regions of one run.
func open(o Options, scope policy.Scope, clock *sim.Clock, now func() time.Duration) (sites []*site, err error) {
	for i := range o.Regions {
		s := &site{name: name(i), said: map[string]string{}, saidAt: map[string]time.Duration{}, asked: map[string]int64{}}
		store := weir.NewMemory(weir.MemoryOptions{Now: clock.Now, MaxBytes: 1 << 20})
		behind, err := weir.New(weir.Options{Store: store})
		if err != nil {
			return sites, err
		}
		settings := regions.Settings{Region: s.name, Interval: o.Interval, Lag: o.Lag, Now: now}
		if o.blind {
			settings.Lag = time.Hour
		}
		for j := range o.Regions {
			if j != i {
				settings.Peers = append(settings.Peers, name(j))
			}
		}
		s.exchange = regions.NewExchange(newBooks(behind, o.Limit), settings)
		front := regions.Front(store, s.exchange)
		front.Share(map[string]policy.Sharing{space: {Scope: scope, Refill: o.Limit.Refill()}})
		s.keeper = regions.NewShareKeeper(s.exchange)
		if s.limiter, err = weir.New(weir.Options{Store: front}); err != nil {
			return sites, err
		}
		sites = append(sites, s)
	}
	return sites, nil
}

func name(i int) string { return fmt.Sprintf("region-%d", i+1) }
