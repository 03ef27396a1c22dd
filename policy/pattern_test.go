package policy

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// slowMatch is the meaning of patterns, without regard to time.
func slowMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return slowMatch(pattern[1:], path) || len(path) > 0 && slowMatch(pattern, path[1:])
	case len(path) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == path[0]) && slowMatch(pattern[1:], path[1:])
}

// TestPatterns compares matching, covering and meeting with their meaning, over
// every path of up to four segments out of three words.
func TestPatterns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	paths := [][]string{{}}
	for i := 0; i < len(paths) && len(paths[i]) < 4; i++ {
		for _, w := range []string{"a", "b", "z"} {
			paths = append(paths, append(append([]string(nil), paths[i]...), w))
		}
	}
	draw := func() pattern {
		var p pattern
		for range random.IntN(5) {
			w := []string{"a", "b", "*", "**"}[random.IntN(4)]
			if w == "**" && len(p.segments) > 0 && p.segments[len(p.segments)-1] == "**" {
				continue
			}
			p.segments = append(p.segments, w)
		}
		return p
	}
	covered, met := 0, 0
	for range 3000 {
		p, q := draw(), draw()
		both, onlyQ := false, false
		for _, path := range paths {
			inP, inQ := slowMatch(p.segments, path), slowMatch(q.segments, path)
			if got := p.match("/" + strings.Join(path, "/")); got != inP {
				t.Fatalf("/%s matches /%s: %v", strings.Join(p.segments, "/"), strings.Join(path, "/"), got)
			}
			both, onlyQ = both || inP && inQ, onlyQ || inQ && !inP
		}
		if p.covers(&q) {
			if covered++; onlyQ {
				t.Fatalf("%q is said to cover %q", p.segments, q.segments)
			}
		}
		if meet(p.segments, q.segments) {
			met++
		} else if both {
			t.Fatalf("%q and %q are said never to meet", p.segments, q.segments)
		}
	}
	if covered < 100 || met < 100 || met > 2900 {
		t.Errorf("covered %d, met %d of 3000: the test shows little", covered, met)
	}
}
