package weir

import (
	"testing"
	"time"

	"github.com/weirhq/weir/algo"
)

// However a limit is made, it is the same value, tag included; and a tag tells balances
// apart, but for key and space.
func TestALimitHasOneTag(t *testing.T) {
	parsed := func(s string) Limit {
		l, err := ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, same := range [][]Limit{
		{Per(10, time.Minute).Named("a").Using(algo.SlidingLog), Per(10, time.Minute).Using(algo.SlidingLog).Named("a"), parsed("10/min name=a algorithm=sliding_log")},
		{PerMinute(10), PerMinute(10).Named("x").Named(""), parsed("10/min"), PerMinute(10).Burst(10)},
		{Unlimited(), parsed("unlimited")},
		{parsed("1/month tz=Europe/Paris algorithm=fixed_window"), parsed("1/month algorithm=fixed_window tz=Europe/Paris")},
	} {
		for _, l := range same[1:] {
			if l != same[0] {
				t.Errorf("%v and %v are two limits", l, same[0])
			}
		}
	}
	apart := []Limit{
		PerMinute(10), PerSecond(10), PerMinute(10).Using(algo.LeakyBucket), PerMinute(10).Named("a"), PerMinute(10).Named("b"),
		PerMinute(10).Named("Europe/Paris"), parsed("1/month tz=Europe/Paris algorithm=fixed_window"),
		parsed("1/month tz=UTC algorithm=fixed_window"), parsed("1/day tz=UTC algorithm=fixed_window"),
	}
	for i, l := range apart {
		for j, m := range apart {
			if (l.tag == m.tag) != (i == j) || l.sameBalance(&m) != (i == j) {
				t.Errorf("%v and %v: tags %x and %x, one balance: %t", l, m, l.tag, m.tag, l.sameBalance(&m))
			}
		}
	}
	// How much is granted is not whose it is.
	if a, b := PerMinute(10), PerMinute(20).Burst(40).OnFailure(Open).Share(3); a.tag != b.tag || !a.sameBalance(&b) {
		t.Error("a changed limit is another balance")
	}
}
