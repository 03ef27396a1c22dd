package policyfile

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file, or writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s", name, difference(string(want), got))
	}
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	var out []string
	has := func(text, line string) bool {
		return strings.Contains("\n"+text+"\n", "\n"+line+"\n")
	}
	for line := range strings.Lines(want) {
		if !has(got, strings.TrimSuffix(line, "\n")) {
			out = append(out, "- "+line)
		}
	}
	for line := range strings.Lines(got) {
		if !has(want, strings.TrimSuffix(line, "\n")) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "")
}

func TestGoodFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/good/*.*")
	if err != nil || len(names) < 10 {
		t.Fatal("good files are missing", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			if _, err := Load(name); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestBadFiles: each file has one fault, and exactly one message about it. The
// messages are in testdata/bad.golden, to be read as a whole.
func TestBadFiles(t *testing.T) {
	names, err := filepath.Glob("testdata/bad/*.*")
	if err != nil || len(names) < 60 {
		t.Fatal("bad files are missing", len(names), err)
	}
	var messages strings.Builder
	for _, name := range names {
		f, err := Load(name)
		if err == nil || f != nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		var faults Errors
		if !errors.As(err, &faults) || len(faults) != 1 {
			t.Errorf("%s: not one fault: %v", name, err)
			continue
		}
		if faults[0].Line < 1 || faults[0].Column < 1 {
			t.Errorf("%s: a fault without a place: %v", name, err)
		}
		messages.WriteString(strings.TrimPrefix(filepath.ToSlash(err.Error()), "testdata/bad/") + "\n")
		if strings.Contains(err.Error(), "k-acme-1") {
			t.Errorf("%s: the message shows an API key: %v", name, err)
		}
	}
	golden(t, "testdata/bad.golden", messages.String())
}
