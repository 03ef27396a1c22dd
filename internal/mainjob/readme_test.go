package mainjob

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// transcript is a command of the README followed by a block of what it prints.
var transcript = regexp.MustCompile("(?ms)^```sh\n([^`]*?curl[^`]*?)^```\n\n```\n(.*?)^```")

// TestReadme runs the README's transcripts against `weir demo`, whose ports may
// be others than the usual here.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	transcripts := transcript.FindAllStringSubmatch(string(readme), -1)
	if len(transcripts) == 0 {
		t.Fatal("the README shows no curl with its answer")
	}
	demo := launch(t, weir, "demo", "--json", "--for", "60s")
	var opened struct{ Proxy, API string }
	demo.await(t, "says where it listens", func() bool {
		line, _, whole := strings.Cut(demo.output.String(), "\n")
		return whole && json.Unmarshal([]byte(line), &opened) == nil && opened.Proxy != ""
	})
	for _, m := range transcripts {
		command := strings.NewReplacer("http://127.0.0.1:8000", opened.Proxy, "http://127.0.0.1:8080", opened.API).Replace(m[1])
		out, err := exec.Command("bash", "-c", command).CombinedOutput()
		if err != nil {
			t.Errorf("%s\n%v", command, err)
		}
		if got, want := unspaced(string(out)), unspaced(m[2]); got != want {
			t.Errorf("%sprints\n%s\nand the README says\n%s", command, out, m[2])
		}
	}
}

// unspaced lets the README break lines where it likes.
func unspaced(s string) string { return strings.Join(strings.Fields(s), "") }

var policyBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestPoliciesInDocuments checks every policy file that a document shows.
func TestPoliciesInDocuments(t *testing.T) {
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, document := range append(documents, "../../README.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range policyBlock.FindAllSubmatch(text, -1) {
			shown++
			file := filepath.Join(t.TempDir(), "weir.yaml")
			if err := os.WriteFile(file, m[1], 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(weir, "policy", "check", file).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", filepath.Base(document), err, out)
			}
		}
	}
	if shown == 0 {
		t.Error("no document shows a policy file")
	}
}
