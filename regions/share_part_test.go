package regions

import (
	"testing"

	"github.com/weirhq/weir/algo"
)

// TestEqualSharesOfASmallLimit: what can be divided equally is, so that small
// limits do not lose a unit, or all of them, to rounding.
func TestEqualSharesOfASmallLimit(t *testing.T) {
	for regions := int64(1); regions <= 16; regions++ {
		if whole%share(regions) != 0 {
			t.Errorf("the whole leaves a rest over %d regions", regions)
		}
		for each := int64(1); each <= 5; each++ {
			q := algo.Quota{Kind: algo.TokenBucket, N: each * regions, Period: 60_000_000, Capacity: each * regions}
			if got := (whole / share(regions)).part(q); got.N != each || got.Capacity != each {
				t.Errorf("%d of %d regions is %d with a burst of %d, want %d", regions, q.N, got.N, got.Capacity, each)
			}
		}
	}
}
