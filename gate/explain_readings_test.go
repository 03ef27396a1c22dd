package gate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirhq/weir/policy"
)

// TestExplainTellsEachRuleOnce: of a path with several readings, a rule is
// matched if it is under any of them and else skipped, once.
func TestExplainTellsEachRuleOnce(t *testing.T) {
	var c clock
	g := New(limiter(t, &c), resolver(t, ""), compiled(t,
		policy.Rule{Name: "not", Match: policy.Conditions{Paths: []string{"/**"}}, Not: policy.Conditions{Paths: []string{"/a/b"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
		policy.Rule{Name: "never", Not: policy.Conditions{Paths: []string{"/*", "/a/b"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
		policy.Rule{Name: "other", Match: policy.Conditions{Paths: []string{"/a/b"}}, Not: policy.Conditions{Paths: []string{"/a/*"}, Methods: []string{"GET"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
		policy.Rule{Name: "mixed", Match: policy.Conditions{Paths: []string{"/a%2Fb"}}, Not: policy.Conditions{Paths: []string{"/*"}, Methods: []string{"GET"}}, Key: key(t, "ip"), Limit: limit(t, "5/min")},
	))
	for path, want := range map[string]string{
		"/a%2Fb": "matched [not] skipped [never other mixed]",
		"/a/b":   "matched [] skipped [not never other mixed]",
	} {
		e, err := g.Explain(t.Context(), call("GET", path, "192.0.2.1", ""))
		if err != nil {
			t.Fatal(err)
		}
		matched, skipped := []string{}, []string{}
		for _, m := range e.Matched {
			matched = append(matched, m.Rule)
		}
		for _, s := range e.Skipped {
			skipped = append(skipped, s.Rule)
		}
		if got := fmt.Sprint("matched ", matched, " skipped ", skipped); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if i := slices.IndexFunc(e.Skipped, func(s Skipped) bool { return s.Rule == "mixed" }); path == "/a%2Fb" && i >= 0 && e.Skipped[i].Why != "match.not excludes it" {
			t.Errorf("mixed: %s", e.Skipped[i].Why)
		}
	}
}
