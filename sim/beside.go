package sim

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weirhq/weir"
)

// What a preset puts beside the engine.

// jittered is herd's clients with the jitter of the waits that Weir names: a fifth.
func jittered(ctx context.Context, p *Preset, limit weir.Limit) ([]Row, error) {
	told, err := p.through(ctx, p.arrivals, limit, "at the moment told")
	if err != nil {
		return nil, err
	}
	spread, err := p.through(ctx, spread(10*second, 12*second, 10_000), limit, "with jitter")
	return []Row{told, spread}, err
}

// skewed is what comes through instances whose clocks disagree.
func skewed(yield func(Arrival) bool) {
	for at := time.Duration(0); at < 3*minute; at += 2 * second {
		for a := range byTurns(at, 60, len(clocks)) {
			if !yield(a) {
				return
			}
		}
	}
}

// clocks is how far each instance's clock is ahead.
var clocks = []time.Duration{-2 * second, 0, 2 * second}

func rivals(ctx context.Context, p *Preset, limit weir.Limit) ([]Row, error) {
	ours, err := p.through(ctx, p.arrivals, limit, "weir")
	if err != nil {
		return nil, err
	}
	clock := NewClock(limit.Period())
	script, err := p.run(ctx, p.arrivals, clock, &limit, &clientClock{clock: clock, limit: limit}, "a script on clients' clocks")
	if err != nil {
		return nil, err
	}
	clock = NewClock(limit.Period())
	counter, err := p.run(ctx, p.arrivals, clock, &limit, &getThenIncrement{clock: clock, limit: limit}, "get, then increment")
	counter.Algorithm = "fixed_window"
	return []Row{ours, script, counter}, err
}

// clientClock is the token bucket of many scripts: whoever asks says what time
// it is.
type clientClock struct {
	clock  *Clock
	limit  weir.Limit
	tokens float64
	last   int64 // 0 before the first
}

func (c *clientClock) decide(_ context.Context, a Arrival) (bool, error) {
	now := c.clock.Now() + clocks[a.Via].Microseconds()
	most := float64(c.limit.Most())
	if c.last == 0 {
		c.tokens = most
	} else {
		gained := float64(max(0, now-c.last)) * float64(c.limit.Units()) / float64(c.limit.Period().Microseconds())
		c.tokens = math.Min(most, c.tokens+gained)
	}
	c.last = now
	if c.tokens < 1 {
		return false, nil
	}
	c.tokens--
	return true, nil
}

// getThenIncrement is the counter that is read in one trip and raised in the
// next.
type getThenIncrement struct {
	clock   *Clock
	limit   weir.Limit
	period  int64
	count   int64
	writing []int64 // when increments under way will have arrived
}

// trip is how long an increment takes to get to the counter.
const trip = 2 * time.Millisecond

func (g *getThenIncrement) decide(context.Context, Arrival) (bool, error) {
	now := g.clock.Now()
	if period := now / g.limit.Period().Microseconds(); period != g.period {
		g.period, g.count = period, 0
	}
	for len(g.writing) > 0 && g.writing[0] <= now {
		g.writing = g.writing[1:]
		g.count++
	}
	if g.count >= g.limit.Units() {
		return false, nil
	}
	g.writing = append(g.writing, now+trip.Microseconds())
	return true, nil
}

// failures are the four answers to a store that is away from 1:00 to 2:00.
func failures(ctx context.Context, p *Preset, limit weir.Limit) ([]Row, error) {
	var rows []Row
	for _, f := range []weir.Failure{weir.Open, weir.Closed, weir.Local, weir.Share} {
		row, err := p.without(ctx, limit.OnFailure(f), f.String())
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func failsLocally(ctx context.Context, p *Preset, limit weir.Limit) (Row, error) {
	return p.without(ctx, limit, "")
}

// without puts the traffic through three instances whose store is away for a
// minute.
func (p *Preset) without(ctx context.Context, limit weir.Limit, name string) (Row, error) {
	clock := NewClock(limit.Period())
	now := clock.since(clock.Now())
	store := outage{memory(clock), func() bool { return now() >= minute && now() < 2*minute }}
	return p.each(ctx, clock, limit, 3, func() weir.Store { return store }, name)
}

// outage is a store that is away at times.
type outage struct {
	weir.Store
	away func() bool
}

// Apply implements weir.Store.
func (o outage) Apply(ctx context.Context, bills []*weir.Bill) {
	if !o.away() {
		o.Store.Apply(ctx, bills)
		return
	}
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Err: errors.New("the store is away"), Unreachable: true}
	}
}

// each puts the traffic through n instances, each with a store of its own making.
func (p *Preset) each(ctx context.Context, clock *Clock, limit weir.Limit, n int, store func() weir.Store, name string) (Row, error) {
	var all instances
	defer func() {
		for _, i := range all {
			_ = i.limiter.Close() // of memory: nothing can go wrong
		}
	}()
	for range n {
		l, err := weir.New(weir.Options{Store: store(), Instances: func() int { return n }, Now: clock.Now})
		if err != nil {
			return Row{}, err
		}
		all = append(all, &engine{l, limit})
	}
	return p.run(ctx, p.arrivals, clock, &limit, all, name)
}
