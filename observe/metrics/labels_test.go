package metrics

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/redisstore"
)

// TestErrorKindsAreTheStores: a kind that the store tells and the metrics lack is
// counted as other, and one that no store tells is a series of nothing.
func TestErrorKindsAreTheStores(t *testing.T) {
	told, counted := redisstore.Kinds(), slices.Clone(errorKinds[:])
	slices.Sort(told)
	slices.Sort(counted)
	if !slices.Equal(told, counted) {
		t.Errorf("the store tells\n%q, counted are\n%q", told, counted)
	}
}

// doorGiven finds where a door gives its name.
var doorGiven = regexp.MustCompile(`(?:\.Door(?:, [\w., ]+)? =|observe\.Door =|DoorName\(\) string \{ return) "(\w+)"`)

// TestEveryDoorIsTold: no door in the tree is counted as other.
func TestEveryDoorIsTold(t *testing.T) {
	var found []string
	for _, room := range []string{"internal/door", "httplimit", "grpclimit"} {
		err := filepath.WalkDir("../../"+room, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range doorGiven.FindAllSubmatch(text, -1) {
				found = append(found, string(match[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range found {
		if doors[door(name)] != name {
			t.Errorf("what passes %s is counted as %s", name, doors[door(name)])
		}
	}
	if slices.Sort(found); !slices.Equal(slices.Compact(found), []string{"auth", "grpc", "grpclimit", "http", "httplimit", "proxy", "resp"}) {
		t.Errorf("found the doors %q", found)
	}
}

// TestRulesOfAnotherPolicyGiveWay: what is told apart is the rules in force, however
// many there have been.
func TestRulesOfAnotherPolicyGiveWay(t *testing.T) {
	m := New(Options{})
	force := func(names ...string) {
		var rules []Rule
		for _, name := range names {
			rules = append(rules, Rule{Name: name, Shadow: true, Try: true})
		}
		m.Expect(rules, "memory", []string{"http"})
	}
	var many []string
	for i := range maxRules - 10 {
		many = append(many, fmt.Sprint("old", i))
	}
	force(many...)
	force("kept", "old1")
	m.series(m.rule("old1"), 0, 0, 0).Add(5)
	var next []string
	for i := range 20 {
		next = append(next, fmt.Sprint("new", i))
	}
	force(append(next, "kept", "old1")...)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	told, five := map[string]bool{}, false
	for _, f := range families {
		for _, one := range f.Metric {
			for _, l := range one.Label {
				if l.GetName() == "rule" {
					told[l.GetValue()] = true
					five = five || l.GetValue() == "old1" && one.GetCounter().GetValue() == 5
				}
			}
		}
	}
	if len(told) != 23 || !told["new19"] || told["old2"] || told[otherRule] || !five {
		t.Errorf("%d rules are told apart, old1 counted: %v", len(told), five)
	}
}
