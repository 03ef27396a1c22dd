package redisstore

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const failureDoc = "../docs/failure.md"

// faultTable renders kinds for the document.
func faultTable() string {
	var b strings.Builder
	b.WriteString("| kind | what has happened | `open` | breaker | how it ends |\n|---|---|---|---|---|\n")
	for i := range kinds {
		k := &kinds[i]
		open, breaker := "as `local`", "admits"
		switch {
		case k.name == "canceled":
			open = "an error"
		case k.unreachable:
			open = "admits"
		}
		if k.outage {
			breaker = "refuses"
		}
		name := "`" + k.name + "`"
		for _, w := range k.words {
			if w == strings.ToUpper(w) {
				name += " " + w
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, k.when, open, breaker, k.after)
	}
	return b.String()
}

// TestFaultsAreDocumented: the table in the document is the one in the code.
// WEIR_WRITE_DOCS=1 writes it.
func TestFaultsAreDocumented(t *testing.T) {
	const from, to = "<!-- faults -->\n", "<!-- /faults -->"
	text, err := os.ReadFile(failureDoc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), from)
	table, tail, also := strings.Cut(rest, to)
	if !ok || !also {
		t.Fatalf("%s has no place for the table", failureDoc)
	}
	if os.Getenv("WEIR_WRITE_DOCS") != "" {
		if err := os.WriteFile(failureDoc, []byte(head+from+faultTable()+to+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != faultTable() {
		t.Errorf("%s is not what the code does; make docs-failure writes it", failureDoc)
	}
}

// TestEveryKindIsKnown: no failure is told by a word that the table lacks.
func TestEveryKindIsKnown(t *testing.T) {
	for _, file := range []string{"failures.go", "line.go", "store.go", "command.go", "span.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(text), `Kind: "`)[1:] {
			if name, _, _ := strings.Cut(part, `"`); kindOf[name] == nil {
				t.Errorf("%s: %s is no kind of the table", file, name)
			}
		}
	}
}
