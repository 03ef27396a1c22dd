package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir"
)

// TestChangedRoutes: where a rule counts by route, Changes tells of every change
// of its paths that gives a request another route, and so another balance.
func TestChangedRoutes(t *testing.T) {
	policyOf := func(paths []string, key ...string) *Policy {
		return compile(t, Options{Rules: []Rule{{Name: "r", Match: Conditions{Paths: paths}, Key: parts(t, key...), Limit: weir.PerSecond(5)}}})
	}
	told := func(old, is []string, key ...string) bool {
		return len(policyOf(is, key...).Changes(policyOf(old, key...))) > 0
	}
	for _, c := range []struct {
		old, is []string
		told    bool
	}{
		{[]string{"/login"}, []string{"/login/"}, false},
		{[]string{"/login"}, []string{"/login", "/other"}, false},
		{[]string{"/login", "/other"}, []string{"/login"}, false},
		{[]string{"/api/*"}, []string{"/api/*", "/**"}, false}, // takes what was not counted
		{[]string{"/api/**"}, []string{"/api/**", "/api/search"}, true},
		{[]string{"/api/**", "/api/search"}, []string{"/api/**"}, true},
		{[]string{"/api/*"}, []string{"/api/**"}, true},
		{nil, []string{"/api"}, true},
	} {
		if told(c.old, c.is, "ip", "route") != c.told {
			t.Errorf("%v made %v: told %v", c.old, c.is, !c.told)
		}
		if told(c.old, c.is, "ip") {
			t.Errorf("%v made %v: told without the route in the key", c.old, c.is)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	draw := func() (paths []string) {
		for range 1 + random.IntN(3) {
			path := ""
			for range random.IntN(4) {
				if w := []string{"a", "b", "*", "**"}[random.IntN(4)]; w != "**" || !strings.HasSuffix(path, "**") {
					path += "/" + w
				}
			}
			if path = max(path, "/"); !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
		return paths
	}
	changed := 0
	for range 2000 {
		was, is := draw(), draw()
		old, now := policyOf(was, "route"), policyOf(is, "route")
		for _, path := range []string{"/", "/a", "/b", "/a/a", "/a/b", "/b/b", "/a/b/a", "/a/b/c", "/b/c/a"} {
			p, q := old.rules[0].match.route(path), now.rules[0].match.route(path)
			if p == nil || q == nil || p.text == q.text {
				continue
			}
			if changed++; len(now.Changes(old)) == 0 {
				t.Fatalf("%v made %v: %s was %s and is %s, and nothing is told", was, is, path, p.text, q.text)
			}
		}
	}
	if changed < 100 {
		t.Errorf("%d changes: the test shows little", changed)
	}
}
