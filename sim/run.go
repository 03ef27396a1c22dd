package sim

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Report is what came of a preset: a row for each of Algorithms, in their
// order, and beside them what the preset compares.
type Report struct {
	Algorithms []Row `json:"algorithms"`
	Beside     []Row `json:"beside,omitempty"`
}

// Algorithms is the order of the rows of a Report.
var Algorithms = []algo.Kind{algo.TokenBucket, algo.FixedWindow, algo.SlidingLog, algo.SlidingWindow, algo.LeakyBucket}

// Run runs a preset against limit under every algorithm. Of limit the amount,
// the period and, for the two buckets, the burst count; its own algorithm does
// not. The zero Limit stands for the preset's. The error is an *weir.InputError
// for a limit that one of the algorithms cannot keep, or ctx's.
func Run(ctx context.Context, p *Preset, limit weir.Limit) (*Report, error) {
	if limit == (weir.Limit{}) {
		limit = p.Limit
	}
	r := new(Report)
	for _, kind := range Algorithms {
		l, err := As(limit, kind)
		if err != nil {
			return nil, err
		}
		row, err := p.alone(ctx, l)
		if err != nil {
			return nil, err
		}
		r.Algorithms = append(r.Algorithms, row)
	}
	if p.beside != nil {
		l, err := As(limit, algo.TokenBucket)
		if err != nil {
			return nil, err
		}
		r.Beside, err = p.beside(ctx, p, l)
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// decider answers one arrival. The clock has been set to its instant.
type decider interface {
	decide(ctx context.Context, a Arrival) (bool, error)
}

// run puts traffic through d.
func (p *Preset) run(ctx context.Context, from traffic, clock *Clock, limit *weir.Limit, d decider, name string) (Row, error) {
	start := clock.Now()
	t := newTally(p, limit.Period(), limit.Kind().String())
	t.row.Case = name
	for a := range from {
		clock.Set(start + a.At.Microseconds())
		admitted, err := d.decide(ctx, a)
		if err != nil {
			return t.row, err
		}
		t.add(a.At, admitted)
	}
	return t.row, nil
}

// alone puts the preset's traffic under one limit.
func (p *Preset) alone(ctx context.Context, limit weir.Limit) (Row, error) {
	if p.under != nil {
		return p.under(ctx, p, limit)
	}
	return p.through(ctx, p.arrivals, limit, "")
}

// through puts traffic through one Limiter in memory.
func (p *Preset) through(ctx context.Context, from traffic, limit weir.Limit, name string) (Row, error) {
	clock := NewClock(limit.Period())
	l, err := weir.New(weir.Options{Store: memory(clock)})
	if err != nil {
		return Row{}, err
	}
	defer l.Close()
	return p.run(ctx, from, clock, &limit, &engine{l, limit}, name)
}

// memory is a store that reads clock, with room for one key.
func memory(clock *Clock) weir.Store {
	return weir.NewMemory(weir.MemoryOptions{Now: clock.Now, MaxBytes: 1 << 20})
}

// key is the one that every arrival is charged to.
const key = "everyone"

// engine is a Limiter under one limit.
type engine struct {
	limiter *weir.Limiter
	limit   weir.Limit
}

func (e *engine) decide(ctx context.Context, _ Arrival) (bool, error) {
	d, err := e.limiter.Allow(ctx, key, e.limit)
	return d.Allowed, err
}

// instances are several engines that arrivals come through.
type instances []*engine

func (i instances) decide(ctx context.Context, a Arrival) (bool, error) {
	return i[a.Via%len(i)].decide(ctx, a)
}

// since is a clock's reading as time since base, for layers that count so.
func (c *Clock) since(base int64) func() time.Duration {
	return func() time.Duration { return time.Duration(c.Now()-base) * time.Microsecond }
}
