package onredis

import (
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/loadgen"
	"github.com/weirhq/weir/internal/testredis"
)

// Three masters share the work: tenants are hashed to slots, and each master runs
// scripts for its own. The figures are logged, beside those of one server; on
// this machine all share the cores, so they are no promise.
func TestThreeMastersShareTheWork(t *testing.T) {
	limit := weir.PerSecond(perSecond).Burst(burst)
	load := loadgen.Load{Clients: 256, Keys: 10_000, Duration: time.Second}
	run := func(url string) *loadgen.Result {
		check, end, err := openStacked(url, -1, 0, limit)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		open := func() loadgen.Ask { return asking(check()) }
		loadgen.Run(t.Context(), load, open)
		return loadgen.Run(t.Context(), load, open)
	}
	cluster := testredis.StartCluster(t, 3)
	three, one := run(cluster.URL()), run(testredis.Start(t).URL())
	if three.Failed > 0 || three.Denied > 0 || three.Allowed == 0 {
		t.Errorf("%d admitted, %d denied, %d failed on three masters", three.Allowed, three.Denied, three.Failed)
	}
	calls := make([]int, 0, 3)
	for _, node := range cluster.Nodes {
		stats := node.Must(t, "INFO", "commandstats")
		calls = append(calls, strings.Count(stats, "cmdstat_evalsha:calls="))
	}
	for i, n := range calls {
		if n == 0 {
			t.Errorf("master %d ran no script", i)
		}
	}
	rate := func(r *loadgen.Result) float64 { return float64(r.Allowed) / r.Elapsed.Seconds() }
	t.Logf("three masters %.0f checks/s, one server %.0f; p99 %v and %v",
		rate(three), rate(one), three.Latency.Quantile(990), one.Latency.Quantile(990))
}
