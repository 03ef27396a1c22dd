package redisstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
)

func TestPacedWeight(t *testing.T) {
	for _, c := range []struct {
		limit      int
		us, weight float64
		want       int
	}{
		{128, 500, 100, 128},    // as much again would fit
		{128, 2000, 200, 100},   // twice the time: at once
		{100, 250, 100, 126},    // room for four times: by a quarter at a time
		{128, 90_000, 100, 16},  // never below
		{16, 0, 100, 21},        // too fast to be measured
		{128, 1000, 128, 128},   // on the mark
		{128, 1001, 128, 127},   // and just over it
		{17, 10_000, 17, 16},    // the lower bound again
		{120, 1, 0.0001, 16},    // nothing but peeks at nothing
		{128, 1e9, 1e12, 128},   // no overflow
		{minWeight, 15, 1, 21},  // small flights cost more each
		{maxWeight, 100, 1, 16}, // a lone check of 100 µs
	} {
		if got := pacedWeight(c.limit, c.us, c.weight); got != c.want {
			t.Errorf("weight %d, %v µs for %v: %d, want %d", c.limit, c.us, c.weight, got, c.want)
		}
	}
}

// TestFlightsKeepAServersPace: where a bill costs the server much, flights carry
// less; where it costs little, more again.
func TestFlightsKeepAServersPace(t *testing.T) {
	server := testredis.Start(t)
	store, err := Open(server.URL(), Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	limit := weir.PerMinute(1_000_000)
	pace := &store.line(0).paced
	pace.learned(1, 0, true)
	pace.flown([]*request{{weight: 100}})
	pace.learned(1001, 100_000_000, true) // as if scripts took 100 ms each
	if pace.weighs() != minWeight {
		t.Fatalf("scripts of 100 ms leave a weight of %d, want %d", pace.weighs(), minWeight)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	quickened := func() bool { return pace.weighs() > 2*minWeight }
	var callers sync.WaitGroup
	for c := range 64 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil && !quickened(); n++ {
				if _, err := l.Allow(ctx, fmt.Sprint(c, n%100), limit); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	if !quickened() {
		t.Errorf("a fast server is still sent no more than %d at a time", pace.weighs())
	}
}
