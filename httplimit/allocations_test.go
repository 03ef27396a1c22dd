//go:build !race

package httplimit_test

import (
	"testing"

	"github.com/weirhq/weir"
)

// The race detector makes pools forget at random, so allocations are counted
// without it.

// An admitted request costs the text of its key, the text of the fields and
// their values, and nothing else.
func TestAllocations(t *testing.T) {
	for name, most := range map[string]float64{"by_ip": 3, "by_header": 3, "by_ip_without_fields": 1, "two_rules": 4} {
		for _, c := range benchmarks {
			if c.name != name {
				continue
			}
			h := build(t, limiter(t, weir.Options{}), c.options)(nothing)
			w, r := discard{}, request()
			if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }); n > most {
				t.Errorf("%s: %v allocations a request, want at most %v", name, n, most)
			}
		}
	}
}
