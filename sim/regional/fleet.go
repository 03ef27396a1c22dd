package regional

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/regions"
)

// Fleet is regions, their instances and the keys they use, to find out what goes
// between the regions. Its exchanges are real, and its books only count.
type Fleet struct {
	Regions, Instances int // instances over all regions
	Keys               int // in use
	Uses               int // admissions a second, over all keys and regions
	Interval, Length   time.Duration
}

// Traffic is what goes between a fleet's regions in a second.
type Traffic struct {
	Changes int64 // of a key, each told to one peer
	Bytes   int64 // of letters
	Letters int64 // each an XADD, and a share of an XREADGROUP, an XDEL and an XACK
	Calls   int64 // of scripts that add up and that debit
}

// Run counts a fleet's traffic. Keys are used at random, all alike, each in every
// region, which is the worst case: a key that only one region uses is told just
// the same, but one that is used twice in an interval is told once.
func (f Fleet) Run(ctx context.Context) (t Traffic, err error) {
	now := time.Duration(1)
	clock := func() time.Duration { return now }
	kept := make([]*books, f.Regions)
	instances := make([][]*regions.Exchange, f.Regions)
	for i := range f.Regions {
		kept[i] = newBooks(nil, weir.PerMinute(1000))
		settings := regions.Settings{Region: name(i), Interval: f.Interval, Lag: time.Second, Now: clock}
		for j := range f.Regions {
			if j != i {
				settings.Peers = append(settings.Peers, name(j))
			}
		}
		for range f.Instances / f.Regions {
			instances[i] = append(instances[i], regions.NewExchange(kept[i], settings))
		}
	}
	limit := weir.PerMinute(1000)
	quota := limit.Quota()
	random := rand.New(rand.NewPCG(1, 2)) // the same at every run
	due := 0.0
	rounds := int64(0)
	for ; now < f.Length; now += f.Interval {
		rounds++
		for due += float64(f.Uses) * f.Interval.Seconds(); due >= 1; due-- {
			charge := limit.Charge(fmt.Sprintf("tenant-%08d", random.IntN(f.Keys)))
			i := random.IntN(f.Regions)
			instances[i][random.IntN(len(instances[i]))].Add(kept[i].Consumed(&charge, &quota, nil, 1))
		}
		for i := range f.Regions {
			for _, e := range instances[i] {
				if err := t.round(ctx, i, e, instances); err != nil {
					return t, err
				}
			}
		}
	}
	for _, b := range kept {
		t.Calls += b.calls
	}
	for _, n := range []*int64{&t.Changes, &t.Bytes, &t.Letters, &t.Calls} {
		*n = int64(float64(*n) / (float64(rounds) * f.Interval.Seconds()))
	}
	return t, nil
}

// round lets one instance tell what it has to, and one of each peer's hear it.
func (t *Traffic) round(ctx context.Context, from int, e *regions.Exchange, instances [][]*regions.Exchange) error {
	if err := e.Collect(ctx); err != nil {
		return err
	}
	for to := range instances {
		if to == from {
			continue
		}
		for l := e.Letter(name(to)); l != nil; l = e.Letter(name(to)) {
			payload := l.Payload()
			t.Letters++
			t.Bytes += int64(len(payload))
			t.Changes += int64(len(l.Taken))
			if err := instances[to][0].HearPayload(ctx, name(from), payload); err != nil {
				return err
			}
			e.Done(l, true)
		}
	}
	return nil
}
