package memory

import (
	"fmt"
	"runtime"

	"github.com/weirhq/weir"
)

// Footprint is what keys cost beyond themselves.
type Footprint struct {
	Keys        int
	BytesPerKey float64 // heap in use after a collection, less before
	Evicted     int64   // balances that gave way: the measurement is void unless 0
}

// MeasureFootprint fills a store of Weir with keys and weighs it.
func MeasureFootprint(keys int) (Footprint, error) {
	store := weir.NewMemory(weir.MemoryOptions{MaxBytes: roomFor(keys)})
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		return Footprint{}, err
	}
	before := heap()
	take := takeFrom(l, limitFor(keys))
	NewKeys(keys).Each(func(key string) { take(key) })
	grown := heap() - before
	stats := store.Stats()
	if stats.Balances != keys {
		return Footprint{}, fmt.Errorf("%d balances for %d keys", stats.Balances, keys)
	}
	return Footprint{keys, float64(grown) / float64(keys), stats.Evicted}, l.Close()
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Slowdown is how much slower a decision is among many keys than among few,
// beside the same for a plain Go map of counters.
type Slowdown struct {
	Few, Many int
	Weir, Map float64 // time at many over time at few
}

// MeasureSlowdown compares few and many keys on one core.
func MeasureSlowdown(few, many, n int) (Slowdown, error) {
	s := Slowdown{Few: few, Many: many}
	pair := []Limiter{{"weir", openWeir}, {"map", openMap}}
	var ns [2][2]float64
	for i, keys := range []int{few, many} {
		rows, err := Compare(pair, Workload{Name: fmt.Sprint(keys, " keys"), Keys: keys}, 1, n)
		if err != nil {
			return s, err
		}
		ns[i] = [2]float64{rows[0].Ns, rows[1].Ns}
		runtime.GC() // the ten million strings of the map are not to be dragged on
	}
	s.Weir, s.Map = ns[1][0]/ns[0][0], ns[1][1]/ns[0][1]
	return s, nil
}

// openMap returns a plain map of counters, which one caller uses.
func openMap(keys int) (Take, error) {
	counts := make(map[string]uint64, keys)
	return func(key string) bool {
		counts[key]++
		return true
	}, nil
}
