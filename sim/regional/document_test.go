package regional

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/regions.md and its pictures")

// TestDocumentIsCurrent: docs/regions.md is what the code says.
func TestDocumentIsCurrent(t *testing.T) {
	text, files, err := Document(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	files["regions.md"] = text
	for name, want := range files {
		path := filepath.Join("..", "..", "docs", filepath.FromSlash(name))
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not as made (%v); make regions-docs", path, err)
		}
	}
}
