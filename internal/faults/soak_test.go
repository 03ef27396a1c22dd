package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
)

// use is what the process holds at a moment.
type use struct {
	heap        uint64 // bytes alive
	goroutines  int
	descriptors int
}

// holds is the use when nothing is under way. What is still ending gets a moment.
func holds(t *testing.T) use {
	t.Helper()
	runtime.GC()
	runtime.GC() // what pools held through the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return use{m.HeapAlloc, runtime.NumGoroutine(), len(open)}
}

// TestSoak puts random faults on a server under a mixed load, one after the
// other, and looks between them at what the process holds: it must not grow.
// WEIR_SOAK is for how long; a moment of it is for CI.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("WEIR_SOAK"))
	if err != nil {
		if length = 15 * time.Second; brief() {
			length = 5 * time.Second
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %v", seed, length)
	random := rand.New(rand.NewPCG(seed, 0))
	server := testredis.Start(t, kept...)
	s := &scene{servers: []*testredis.Server{server}, proxy: testredis.StartProxy(t, server.Addr)}
	s.load = newLoad(t, s.proxy.URL(), deadline, nil)
	s.load.forget = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { s.mixed(ctx) })
	go func() { defer close(done); s.load.run(ctx) }()
	defer func() { cancel(); <-done; others.Wait() }()

	var uses []use
	faults := make(map[string]int)
	for end := time.Now().Add(length); time.Now().Before(end); {
		name := s.random(t, random)
		faults[name]++
		began := time.Now()
		await(t, "redis decides again after "+name, func() bool {
			d, err := s.load.limiter.Peek(t.Context(), s.load.bucket[0][0].charge)
			return err == nil && d.Source == "redis" && time.Since(began) > 500*time.Millisecond
		})
		uses = append(uses, holds(t))
	}
	first, last := most(uses[:max(1, len(uses)/3)]), most(uses[len(uses)*2/3:])
	t.Logf("%d checks, faults %v; at most %+v in the first third, %+v in the last", s.load.next.Load(), faults, first, last)
	if last.heap > first.heap*5/4+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", first.heap, last.heap)
	}
	if last.goroutines > first.goroutines*5/4+100 { // those of checks under way among them
		t.Errorf("goroutines grew from %d to %d", first.goroutines, last.goroutines)
	}
	if last.descriptors > first.descriptors+8 {
		t.Errorf("descriptors grew from %d to %d", first.descriptors, last.descriptors)
	}
	for problem, n := range s.load.wrong {
		t.Errorf("%d times: %s", n, problem)
	}
}

func most(uses []use) (m use) {
	for _, u := range uses {
		m = use{max(m.heap, u.heap), max(m.goroutines, u.goroutines), max(m.descriptors, u.descriptors)}
	}
	return m
}

// random lets one fault happen and end, and returns its name.
func (s *scene) random(t *testing.T, random *rand.Rand) string {
	lasting := time.Duration(100+random.IntN(900)) * time.Millisecond
	switch random.IntN(8) {
	case 0:
		s.servers[0].Kill()
		hold(lasting)
		restart(t, s)
		return "kill"
	case 1:
		must(t, s.servers[0].Pause())
		hold(lasting)
		must(t, s.servers[0].Resume())
		return "stop"
	case 2:
		s.proxy.Delay(lasting)
		hold(lasting)
		s.proxy.Delay(0)
		return "latency"
	case 3:
		for range 10 {
			s.proxy.Cut()
			hold(lasting / 10)
		}
		return "cuts"
	case 4:
		s.proxy.Deaf(true)
		hold(lasting)
		s.proxy.Deaf(false)
		return "deaf"
	case 5:
		for range 10 {
			s.proxy.HalfClose()
			hold(lasting / 10)
		}
		return "half-closed"
	case 6:
		s.servers[0].Must(t, "FLUSHALL")
		s.servers[0].Must(t, "SCRIPT", "FLUSH")
		return "flush"
	}
	s.servers[0].Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	hold(lasting)
	s.servers[0].Must(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	return "no replicas"
}

// mixed asks for all else that a limiter does, under ever new keys.
func (s *scene) mixed(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	kinds := []algo.Kind{algo.TokenBucket, algo.LeakyBucket, algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limit := weir.Per(10, time.Second).Using(kinds[n%len(kinds)]).OnFailure(classes[n/5%len(classes)])
		b := &weir.Bill{Charges: []weir.Charge{limit.Charge(fmt.Sprint("new", n)), limit.Charge("old")}}
		// What comes of these is not looked at: they are here for what they leave behind.
		if l := s.load.limiter; l.Decide(ctx, b) == nil && b.Allowed && b.Err == nil {
			_ = l.Refund(ctx, b.Charges...)
			_ = l.Block(ctx, time.Second, b.Charges[0])
			_ = l.Reset(ctx, b.Charges[0])
		}
	}
}
