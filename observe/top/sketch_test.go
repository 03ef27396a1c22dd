package top

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/weirhq/weir"
)

// TestWhatOthersAdd: of a key that was never asked for the sketch says more than
// e/4096 of all counts in one case of twenty at most, whether the others are many,
// few and large, or of the weight at which they do most.
func TestWhatOthersAdd(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	b := &weir.Bill{Charges: []weir.Charge{weir.PerMinute(1).Charge("k")}}
	for _, keys := range []int{20, 400, 1000, 1500, 2800, 4200, 100_000} {
		over, looks := 0, 0
		for range 20 {
			s := new(sketch)
			each := max(1, 60_000/keys)
			for range keys {
				h := random.Uint64()
				for range each {
					s.count(h, b, 0)
				}
			}
			for range 2000 {
				looks++
				if float64(s.estimate(random.Uint64())) > math.E/4096*float64(s.seen) {
					over++
				}
			}
		}
		t.Logf("%d keys: %.2f %% over", keys, 100*float64(over)/float64(looks))
		if over*20 > looks {
			t.Errorf("%d keys: over the bound in %d of %d cases", keys, over, looks)
		}
	}
}

// A line of counters is a cache line.
func TestLinesAreLines(t *testing.T) {
	p := new(part)
	if size, at := unsafe.Sizeof(line{}), uintptr(unsafe.Pointer(&p.asked.lines)); size != 64 || at%64 != 0 {
		t.Errorf("%d bytes at %x", size, at)
	}
}
