package redisstore_test

import (
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// A bill of nothing but unlimited charges is admitted, and those that come with it are
// decided: asked of the script, it made Redis refuse the whole flight, and three of
// them opened the breaker for everybody.
func TestUnlimitedAsksNothing(t *testing.T) {
	h := open(t, testredis.Start(t), redisstore.Options{})
	ten, free := weir.Per(10, time.Hour), weir.Unlimited()
	for i := range int64(5) {
		for _, verb := range []algo.Verb{algo.Take, algo.Peek} {
			alone, both := bill(free.Charge("x")), bill(free.Charge("x"), free.Charge("y"))
			pair, mixed := bill(ten.Charge("a"), ten.Charge("b")), bill(free.Charge("x"), ten.Charge("c"))
			all := []*weir.Bill{alone, both, pair, mixed}
			for _, b := range all {
				b.Verb = verb
			}
			h.decide(all...)
			h.decide(alone)
			for j, b := range all {
				if b.Err != nil || !b.Allowed || b.Source != "redis" {
					t.Fatalf("%d, %s: %+v, %v", j, verb, b.Decision, b.Err)
				}
			}
			if want := 9 - i; verb == algo.Take && (pair.Remaining != want || mixed.Remaining != want) {
				t.Errorf("%d and %d left, want %d", pair.Remaining, mixed.Remaining, want)
			}
		}
	}
}
