package replay

import (
	"math/rand/v2"
	"testing"
)

// TestSeries: nothing is lost when buckets are made wider, buckets stand at round
// times, and a part of the times fits into the buckets of all of them.
func TestSeries(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, length := range []int64{1, 200, 5000, 100_000, 3_000_000, 400_000_000} { // seconds
		start := int64(1_700_000_000) + random.Int64N(1_000_000)
		var all, some series
		var denied, later int64
		half := start + length/2
		for i := range int64(3000) {
			at := start + i*length/3000
			all.add(at*1e6, i%3 > 0)
			if i%3 == 0 {
				denied++
				if at >= half {
					later++
					some.add(at*1e6, false)
				}
			}
		}
		count := func(s *series) (allowed, denied, before int64) {
			for i, b := range s.buckets {
				allowed, denied = allowed+b.allowed, denied+b.denied
				if s.start+int64(i+1)*s.width <= half*1e6 {
					before += b.denied
				}
			}
			return allowed, denied, before
		}
		if a, d, _ := count(&all); a != 3000-denied || d != denied || len(all.buckets) > maxBuckets || all.start%all.width != 0 || all.start > start*1e6 {
			t.Errorf("%d s: %d admitted, %d refused in %d buckets of %s from %d", length, a, d, len(all.buckets), span(all.width), all.start)
		}
		in := some.within(&all)
		if _, d, before := count(in); d != later || before != 0 || len(in.buckets) != len(all.buckets) {
			t.Errorf("%d s: %d of %d within, %d before their time", length, d, later, before)
		}
	}
	for us, want := range map[int64]string{1e6: "1 s", 15e6: "15 s", 60e6: "1 min", 900e6: "15 min", 3600e6: "1 h", 10800e6: "3 h", 86400e6: "1 d", 2 * 86400e6: "2 d"} {
		if got := span(us); got != want {
			t.Errorf("%d µs: %q", us, got)
		}
	}
}
