package recipes

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/observe/metrics"
)

var update = flag.Bool("update", false, "write the files anew")

const root = "../../.."

// files are what is made here, by path.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	dashboard, err := Dashboard()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"deploy/grafana/weir.json": dashboard, "deploy/prometheus/alerts.yaml": Alerts(), "deploy/prometheus/prometheus.yaml": Scrape(),
	}
}

// TestFilesAreAsMade holds what is committed to the definitions.
func TestFilesAreAsMade(t *testing.T) {
	all := files(t)
	const page = "docs/observability.md"
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	all[page] = between(t, between(t, text, "metrics", Table()), "alerts", AlertTable())
	for path, want := range all {
		path = filepath.Join(root, path)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not as made (%v); make recipes", path, err)
		}
	}
}

// between puts a table between the marks of its name.
func between(t *testing.T, text []byte, name, table string) []byte {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("there is no place for %s", name)
	}
	return []byte(head + begin + table + end + tail)
}

// TestEveryMetricIsShown, and none is asked for that is not defined.
func TestEveryMetricIsShown(t *testing.T) {
	shown := ""
	for _, text := range files(t) {
		shown += string(text)
	}
	if i := strings.Index(shown, undefined); i >= 0 {
		t.Errorf("not defined: %s", shown[i:min(i+60, len(shown))])
	}
	for _, d := range metrics.Definitions {
		if !strings.Contains(shown, d.Name) {
			t.Errorf("%s is shown nowhere", d.Name)
		}
	}
}
