package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// What a check costs, in counts that hold on any machine.
func TestWhatACheckCosts(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	limit := weir.PerMinute(1_000_000)
	const callers, each = 256, 40
	checks := func(key func(caller, n int) string) {
		var calling sync.WaitGroup
		for c := range callers {
			calling.Go(func() {
				for n := range each {
					if _, err := h.Allow(context.Background(), key(c, n), limit); err != nil {
						t.Error(err)
					}
				}
			})
		}
		calling.Wait()
	}
	spread := func(c, n int) string { return fmt.Sprint(c*each + n) }
	checks(spread)
	h.do("CONFIG", "RESETSTAT")
	checks(spread)
	stats := h.do("INFO", "commandstats")
	calls, sets := count(stats, "cmdstat_evalsha:calls="), writes(stats)
	t.Logf("%d checks on as many keys: %d script calls, %d writes", callers*each, calls, sets)
	if sets != callers*each {
		t.Errorf("%d writes for %d checks on as many keys, want one each", sets, callers*each)
	}
	if calls > callers*each/8 {
		t.Errorf("%d script calls for %d concurrent checks, want few", calls, callers*each)
	}
	if n := count(stats, "cmdstat_exists:calls="); n != 0 {
		t.Errorf("%d EXISTS where every key was there", n)
	}

	h.do("CONFIG", "RESETSTAT")
	checks(func(int, int) string { return "hot" })
	stats = h.do("INFO", "commandstats")
	calls, sets = count(stats, "cmdstat_evalsha:calls="), writes(stats)
	t.Logf("%d checks on one key: %d script calls, %d writes", callers*each, calls, sets)
	if sets > calls {
		t.Errorf("%d writes in %d script calls on one key, want one each at most", sets, calls)
	}
}

// One check by itself: what it allocates here and sends.
func BenchmarkCheck(b *testing.B) {
	server := testredis.Start(b)
	store, err := redisstore.Open(server.URL(), redisstore.Options{Timeout: patient})
	if err != nil {
		b.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	limit := weir.Per(1_000_000, time.Second)
	var keys [1024]string
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i)
	}
	b.SetParallelism(256)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := l.Allow(context.Background(), keys[i%len(keys)], limit); err != nil {
				b.Error(err)
			}
		}
	})
}

// writes counts the commands that wrote a balance.
func writes(stats string) int {
	return count(stats, "cmdstat_set:calls=") + count(stats, "cmdstat_setrange:calls=")
}
