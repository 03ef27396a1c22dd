package policy

import (
	"testing"

	"github.com/weirhq/weir"
)

// TestClosestPattern: of the patterns that cover a path the closest one gives
// its cost and its route, in whatever order they are written.
func TestClosestPattern(t *testing.T) {
	rule := Rule{
		Name: "r", Key: parts(t, "route"), Limit: weir.PerSecond(1000),
		Match: Conditions{Paths: []string{"/a/**", "/a", "/**", "/*", "/a/*", "/a/**/z", "/**/z", "/"}},
		Cost:  Cost{Paths: map[string]int64{"/a/**": 1, "/a": 2, "/**": 3, "/*": 4, "/a/*": 5, "/a/**/z": 6, "/**/z": 7, "/": 8}},
	}
	r := &compile(t, Options{Rules: []Rule{rule}}).rules[0]
	for path, want := range map[string]string{
		"/": "/", "/a": "/a", "/b": "/*", "/a/b": "/a/*", "/a/b/c": "/a/**", "/b/c": "/**",
		"/a/b/z": "/a/**/z", "/b/z": "/**/z",
	} {
		if got := r.routeOf(path); got != want {
			t.Errorf("the route of %s is %s, want %s", path, got, want)
		}
		if got := r.costOf(path); got != rule.Cost.Paths[want] {
			t.Errorf("%s costs %d, want %d as %s", path, got, rule.Cost.Paths[want], want)
		}
	}
}
