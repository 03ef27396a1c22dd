package regions_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/policy"
)

// TestClocksApart: a region whose server's clock is an hour ahead and one whose is an
// hour behind keep the bound, and all agree after quiet.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	offsets := map[string]time.Duration{"us": time.Hour, "asia": -time.Hour}
	w := newWorldOn(t, func(region string) *testredis.Server {
		offset, apart := offsets[region]
		if !apart {
			return testredis.Start(t)
		}
		clock := testredis.NewClock(t)
		clock.Set(t, offset)
		return clock.Start(t)
	}, policy.ScopeGlobal, nil)
	limit, bound := parse(t, narrow), w.figures.Overshoot(parse(t, narrow))
	began := time.Now()
	w.carry(order{Do: "load", Limit: narrow, Keys: []string{"k"}, Rate: 40, Cost: piece, For: 2 * time.Second})
	beyond := w.beyond(limit, "k", time.Since(began))
	t.Logf("%d beyond the limit; the bound is %d", beyond, bound)
	if beyond > bound {
		t.Errorf("%d admitted beyond the limit; the bound is %d", beyond, bound)
	}
	if _, err := w.converge([]string{"k"}, 20*time.Second); err != nil {
		t.Error(err)
	}
	// The periods are so long that clocks an hour apart are in one of them.
	w.agreeOn(t, "1000/day", "1000/366d algorithm=fixed_window", "1000/366d algorithm=sliding_window", "1000/day algorithm=sliding_log", "1000/day algorithm=leaky_bucket burst=999")
	if left := w.leaks(); left != "" {
		t.Error(left)
	}
}

// TestAClusterIsARegion: one region's balances, counters and stream are spread over a
// cluster's nodes, and it is told and tells as any other.
func TestAClusterIsARegion(t *testing.T) {
	t.Parallel()
	cluster, server := testredis.StartCluster(t, 3), testredis.Start(t)
	way := testredis.StartProxy(t, server.Addr)
	way.Delay(lag)
	begin := func(scope policy.Scope) [2]*region {
		// None seems cut off on a busy machine: what is guessed then is debited, too.
		// Beats are as usual for the same reason: what is said must not be old on arrival.
		set := setup{Interval: interval, Lag: time.Hour, Scope: scope}
		eu, us := set, set
		eu.Region, eu.URL, eu.Peers = "eu", cluster.URL(), map[string]string{"us": way.URL()}
		us.Region, us.URL, us.Peers = "us", server.URL(), map[string]string{"eu": cluster.URL()}
		return [2]*region{startRegion(t, eu), startRegion(t, us)}
	}
	pair := begin(policy.ScopeGlobal)
	keys := make([]string, 12)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	const limit = "1000/day"
	var admitted, unsure [2]int64
	var both sync.WaitGroup
	for i, r := range pair {
		both.Go(func() {
			a := r.do(order{Do: "load", Limit: limit, Keys: keys, Rate: 10, For: time.Second})
			admitted[i], unsure[i] = a.Admitted, a.Unsure
		})
	}
	both.Wait()
	if admitted[0] == 0 || admitted[1] == 0 {
		t.Fatalf("%d and %d were admitted", admitted[0], admitted[1])
	}
	differ := ""
	agreed := eventually(func() bool {
		left := [2]map[string]int64{}
		for i, r := range pair {
			left[i] = r.do(order{Do: "peek", Limit: limit, Keys: keys}).Remaining
		}
		taken := int64(0)
		differ = ""
		for _, key := range keys {
			taken += 1000 - left[0][key]
			if d := left[0][key] - left[1][key]; d < -1 || d > 1 { // a bucket gains a unit in 86 s
				differ = fmt.Sprintf("of %s %d are left in the cluster and %d in the other region", key, left[0][key], left[1][key])
			}
		}
		if all := admitted[0] + admitted[1]; taken > all+unsure[0]+unsure[1] || taken < all-int64(len(keys)) {
			differ = fmt.Sprintf("%d of %d admitted are debited in the cluster", taken, all)
		}
		return differ == ""
	})
	if !agreed {
		t.Error(differ)
	}
	for _, r := range pair {
		r.end()
	}

	begin(policy.ScopeShare)
	const record = "weir1:{regions}shares"
	if !eventually(func() bool {
		there, err := server.Do("EXISTS", record)
		in, errIn := cluster.Owner(t, record).Do("EXISTS", record)
		return err == nil && errIn == nil && fmt.Sprint(there, in) == "1 1"
	}) {
		t.Error("the regions never found their shares")
	}
}

// eventually asks until something holds, for a while.
func eventually(holds func() bool) bool {
	late := time.After(20 * time.Second)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-late:
			return false
		}
	}
	return true
}
