package onredis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/loadgen"
	"github.com/weirhq/weir/internal/testredis"
)

// The short form of the report: what is counted holds on a busy machine too, and
// the ratio has a wide margin.
func TestEveryLimiterAsksRedis(t *testing.T) {
	server := testredis.Start(t)
	load := loadgen.Load{Clients: 64, Keys: 1000, Duration: 400 * time.Millisecond}
	rows, err := Compare(t.Context(), server.Addr, append(Limiters[:len(Limiters):len(Limiters)], Bare), load, 3, AllCores()...)
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]Row)
	for _, r := range rows {
		by[r.Limiter] = r
		if r.PerSecond == 0 || r.Errors > 0 || r.P50 <= 0 || r.P99 < r.P50 || r.CPU <= 0 {
			t.Errorf("nothing to compare: %+v", r)
		}
		// One command at least for each check: nobody answers by himself. Weir
		// shares the reading, and writes each balance once for the checks on it
		// that came together.
		if least := 1.0; r.Limiter != Weir && r.Limiter != Bare.Name && r.Commands < least {
			t.Errorf("%s: %.2f commands a check", r.Limiter, r.Commands)
		}
	}
	weir, rival := by[Weir], by[RedisRate]
	if weir.Commands > 2 {
		t.Errorf("weir: %.2f commands a check, want little more than one write", weir.Commands)
	}
	if weir.CPU > rival.CPU {
		t.Errorf("weir costs Redis %.1f µs a check, redis_rate %.1f", weir.CPU, rival.CPU)
	}
}

func clientOf(t *testing.T, addr string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Each check is a write in Redis, and no check is answered without it.
func TestWeirIsStrict(t *testing.T) {
	server := testredis.Start(t)
	client := clientOf(t, server.Addr)
	check, end, err := Limiters[0].Open(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	one := check()
	before, err := loadgen.ReadUsage(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if allowed, err := one(t.Context(), "key"); err != nil || !allowed {
			t.Fatal("refused", err)
		}
	}
	after, err := loadgen.ReadUsage(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.Since(&before); used.Commands["set"]+used.Commands["setrange"] != 100 {
		t.Errorf("100 checks in a row are %v", used.Commands)
	}
	server.Stop()
	if _, err := one(t.Context(), "key"); err == nil {
		t.Error("a check is decided without the server")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestScheduledIsOnSchedule(t *testing.T) {
	server := testredis.Start(t)
	load := Scheduled(2000, 500*time.Millisecond)
	rows, err := Compare(t.Context(), server.Addr, OnSchedule[:1], load, 1, WithAndWithoutOne()...)
	if err != nil {
		t.Fatal(err)
	}
	if got := rows[0].PerSecond; got > 2000 {
		t.Errorf("%.0f checks a second on a schedule of 2000", got)
	}
}
