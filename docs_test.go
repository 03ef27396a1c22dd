package weir_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documents, held against the tree: what they link to is there, what they
// show of Go is compiled and run, what they list is complete. As in TestRules,
// every check is shown a document that breaks it.

// book is the tree as the checks on documents see it.
type book struct {
	documents map[string]string // path → Markdown
	examples  string            // Go that is compiled and run
	exists    func(string) bool
	modules   []string // direct requirements of every go.mod
	rooms     []string // folders with Go files that ship
	folders   []string // folders with Go files
}

var documentRules = []struct {
	name  string
	check func(b *book) []string
	fault book
	want  string
}{
	{
		name: "links lead somewhere", check: linksLead,
		fault: book{documents: map[string]string{"docs/a.md": "see [b](b.md#part)"}},
		want:  "docs/a.md: docs/b.md is not there",
	},
	{
		name: "Go is taken from examples", check: goIsRun,
		fault: book{documents: map[string]string{"a.md": "```go\nx := 1\n```\n"}, examples: "y := 1\n"},
		want:  "a.md: no example holds: x := 1",
	},
	{
		name: "every module has its reason", check: modulesHaveReasons,
		fault: book{documents: map[string]string{dependencies: "| `example.com/b` | why |"}, modules: []string{"example.com/a"}},
		want:  "example.com/a has no reason",
	},
	{
		name: "no reason outlives its module", check: modulesHaveReasons,
		fault: book{documents: map[string]string{dependencies: "| `example.com/b` | why |"}},
		want:  "example.com/b is not required",
	},
	{
		name: "the map names every room", check: mapNamesRooms,
		fault: book{documents: map[string]string{architecture: "`gate/`"}, rooms: []string{"attic"}},
		want:  "attic/ is not on the map",
	},
	{
		name: "the map names a room once", check: mapNamesRooms,
		fault: book{documents: map[string]string{architecture: "| `gate/` | holds |\n| `gate/` | holds |"}, rooms: []string{"gate"}, folders: []string{"gate"}},
		want:  "gate/ is on the map twice",
	},
	{
		name: "the map names no room that is not there", check: mapNamesRooms,
		fault: book{documents: map[string]string{architecture: "| `gate/` | holds |"}},
		want:  "gate/ is on the map and not there",
	},
}

const (
	dependencies = "docs/dependencies.md"
	architecture = "ARCHITECTURE.md"
)

func TestDocs(t *testing.T) {
	b := readBook(t)
	for _, r := range documentRules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(b) {
				t.Error(finding)
			}
		})
	}
}

func TestDocsRulesCanFail(t *testing.T) {
	for _, r := range documentRules {
		t.Run(r.name, func(t *testing.T) {
			b := r.fault
			b.exists = func(string) bool { return false }
			findings := r.check(&b)
			if !slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, r.want) }) {
				t.Errorf("the planted fault was not found; said %q, want %q", findings, r.want)
			}
		})
	}
}

func readBook(t *testing.T) *book {
	h := readHouse(t)
	b := &book{documents: map[string]string{}, exists: func(p string) bool { _, err := os.Stat(p); return err == nil }}
	for _, f := range h.files {
		switch {
		case path.Ext(f.path) == ".md":
			b.documents[f.path] = string(f.source)
		case strings.HasSuffix(f.path, "example_test.go"):
			b.examples += string(f.source)
		case path.Base(f.path) == "go.mod" && f.path != "tools/go.mod": // tools lists its own
			b.modules = append(b.modules, directModules(string(f.source))...)
		}
		if f.syntax == nil || f.dir() == "" {
			continue
		}
		b.folders = append(b.folders, f.dir())
		if !f.test() && !slices.Contains(b.rooms, f.dir()) {
			b.rooms = append(b.rooms, f.dir())
		}
	}
	return b
}

var aRequirement = regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) v\S+(.*)$`)

// directModules returns what a go.mod requires for itself, other modules of
// this repository aside.
func directModules(mod string) (modules []string) {
	for _, m := range aRequirement.FindAllStringSubmatch(mod, -1) {
		if !strings.Contains(m[2], "// indirect") && !strings.HasPrefix(m[1], module) {
			modules = append(modules, m[1])
		}
	}
	return modules
}

var aLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func linksLead(b *book) (findings []string) {
	for p, text := range b.documents {
		for _, m := range aLink.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if to := path.Join(path.Dir(p), target); !b.exists(filepath.FromSlash(to)) {
				findings = append(findings, p+": "+to+" is not there")
			}
		}
	}
	return findings
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// goIsRun looks for the lines of every Go block, in their order and without
// their indentation, in one stretch of an example.
func goIsRun(b *book) (findings []string) {
	examples := unindented(b.examples)
	for p, text := range b.documents {
		for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
			for part := range strings.SplitSeq(strings.Trim(m[1], "\n"), "\n\n") {
				if !strings.Contains(examples, unindented(part)) {
					first, _, _ := strings.Cut(part, "\n")
					findings = append(findings, fmt.Sprintf("%s: no example holds: %s", p, first))
				}
			}
		}
	}
	return findings
}

func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}

var aReason = regexp.MustCompile("(?m)^\\| `([^`]+)`")

func modulesHaveReasons(b *book) (findings []string) {
	var given []string
	for _, m := range aReason.FindAllStringSubmatch(b.documents[dependencies], -1) {
		given = append(given, m[1])
		if !slices.Contains(b.modules, m[1]) && !strings.HasPrefix(m[1], "tools: ") {
			findings = append(findings, m[1]+" is not required by any go.mod")
		}
	}
	for _, m := range b.modules {
		if !slices.Contains(given, m) {
			findings = append(findings, m+" has no reason in "+dependencies)
		}
	}
	return findings
}

var aRoom = regexp.MustCompile("(?m)^\\| `([a-z/]+)/`")

func mapNamesRooms(b *book) (findings []string) {
	text := b.documents[architecture]
	for _, dir := range b.rooms {
		if !strings.Contains(text, "`"+dir+"/`") {
			findings = append(findings, dir+"/ is not on the map")
		}
	}
	seen := map[string]bool{}
	for _, m := range aRoom.FindAllStringSubmatch(text, -1) {
		if seen[m[1]] {
			findings = append(findings, m[1]+"/ is on the map twice")
		}
		seen[m[1]] = true
		if !slices.Contains(b.folders, m[1]) {
			findings = append(findings, m[1]+"/ is on the map and not there")
		}
	}
	return findings
}
