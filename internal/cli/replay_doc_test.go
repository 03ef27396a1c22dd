package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// TestReplayDocument runs what docs/replay.md shows, in the folder it is about.
func TestReplayDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for part := range strings.SplitSeq(block[1], "$ ") {
			command, want, _ := strings.Cut(part, "\n")
			if command == "" || !strings.Contains(command, "weir ") {
				if part != "" {
					t.Errorf("%q is no command", part)
				}
				continue
			}
			commands++
			c := exec.Command("sh", "-c", command)
			c.Dir = "../../examples/replay"
			out, _ := c.CombinedOutput() // policy test and diff exit 1, and the page says so
			if got := trimLines(string(out)); got != trimLines(want) {
				t.Errorf("%s prints\n%s\nand the page says\n%s", command, got, want)
			}
		}
	}
	if commands < 6 {
		t.Errorf("the page shows %d commands", commands)
	}
}

func trimLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestActions: what the workflow runs of weir does what it is there for.
func TestActions(t *testing.T) {
	text, err := os.ReadFile("../../examples/replay/github-actions.yml")
	if err != nil {
		t.Fatal(err)
	}
	var flow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	if err := yaml.Unmarshal(text, &flow); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, from := range map[string]string{"old.yaml": "weir.yaml", "weir.yaml": "weir.yaml", "access.log": "access.log"} {
		data, err := os.ReadFile(filepath.Join("../../examples/replay", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	steps := 0
	for _, s := range flow.Jobs["policy"].Steps {
		if !strings.HasPrefix(s.Run, "weir ") {
			continue
		}
		steps++
		c := exec.Command("sh", "-c", s.Run)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s.Run, err, out)
		}
	}
	if steps != 3 {
		t.Errorf("%d steps run weir", steps)
	}
}
