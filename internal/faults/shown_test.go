package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const failureDoc = "../../docs/failure.md"

// TestFaultsAreShown holds the list of faults in docs/failure.md to the suite, or
// writes it (make docs-failure).
func TestFaultsAreShown(t *testing.T) {
	text, err := os.ReadFile(failureDoc)
	must(t, err)
	head, rest, ok1 := strings.Cut(string(text), "<!-- shown -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- /shown -->")
	if !ok1 || !ok2 {
		t.Fatalf("%s has no list of faults", failureDoc)
	}
	want := head + "<!-- shown -->\n" + shown() + "<!-- /shown -->" + tail
	if want == string(text) {
		return
	}
	if os.Getenv("WEIR_WRITE_DOCS") == "" {
		t.Fatalf("%s does not list the faults of the suite; make docs-failure", failureDoc)
	}
	must(t, os.WriteFile(failureDoc, []byte(want), 0o600))
}

// shown is the list.
func shown() string {
	var b strings.Builder
	b.WriteString("| on | fault | errors that may be seen |\n|---|---|---|\n")
	for _, some := range []struct {
		on     string
		faults []fault
	}{{"one server", singles}, {"Sentinel", sentinels}, {"Cluster", clusters}} {
		for _, f := range some.faults {
			kinds := "none: nobody notices"
			if len(f.kinds) > 0 {
				kinds = "`" + strings.Join(f.kinds, " ") + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", some.on, strings.TrimPrefix(f.name, some.on+": "), kinds)
		}
	}
	return b.String()
}
