package gate

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirhq/weir/policy"
)

// swaps is how often the policy is swapped under load: few in an ordinary run,
// WEIR_SWAPS=10000 for the full proof.
func swaps(t *testing.T) int {
	if s := os.Getenv("WEIR_SWAPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("WEIR_SWAPS: %v", err)
		}
		return n
	}
	return 500
}

// TestSwapUnderLoad: no decision mixes two policies, or a policy with another's
// resolver, and no balance is lost. Both policies have a rule with one balance
// that is never refilled within the test; what it admits is counted.
func TestSwapUnderLoad(t *testing.T) {
	const most = 20_000
	var now clock
	l := limiter(t, &now)
	side := func(name string) *inForce {
		return &inForce{resolver(t, name), compiled(t,
			policy.Rule{Name: name + "1", Key: key(t, "plan"), Limit: limit(t, "1000000/s")},
			policy.Rule{Name: "counted", Key: key(t, "all"), Limit: limit(t, "20000/day algorithm=fixed_window")},
			policy.Rule{Name: name + "2", Key: key(t, "tenant"), Limit: limit(t, "1000000/s")},
		)}
	}
	sides := []*inForce{side("a"), side("b")}
	g := New(l, sides[0].resolver, sides[0].policy)

	var admitted, decided atomic.Int64
	var saw [2]atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := call("GET", "/x", "192.0.2.1", "k-acme")
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := Get()
				if err := g.Decide(context.Background(), c, v); err != nil {
					t.Error(err)
					return
				}
				plan := v.Caller.Plan
				if len(v.Rules) != 3 || v.RuleName(0) != plan+"1" || v.RuleName(1) != "counted" || v.RuleName(2) != plan+"2" {
					t.Errorf("a caller resolved by %s was judged by %s, %s, %s", plan, v.RuleName(0), v.RuleName(1), v.RuleName(2))
					return
				}
				saw[plan[0]-'a'].Add(1)
				if v.Bill.Allowed {
					admitted.Add(1)
				}
				decided.Add(1)
				Put(v)
			}
		})
	}
	for i := range swaps(t) {
		s := sides[(i+1)%2]
		g.Swap(s.resolver, s.policy)
		for seen := decided.Load(); decided.Load() < seen+4 && !t.Failed(); { // let some be decided under each
		}
	}
	for decided.Load() < 2*most && !t.Failed() { // until it must be spent
	}
	close(stop)
	wg.Wait()
	if got := admitted.Load(); got != most {
		t.Errorf("%d admitted over all policies, want exactly %d", got, most)
	}
	if saw[0].Load() == 0 || saw[1].Load() == 0 {
		t.Errorf("decisions under the two policies: %d and %d", saw[0].Load(), saw[1].Load())
	}
}
