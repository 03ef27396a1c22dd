package sim_test

import (
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/sim"
)

var update = flag.Bool("update", false, "write docs/algorithms.md and its pictures anew")

// The document in the tree is what the engine does today.
func TestDocumentIsCurrent(t *testing.T) {
	docs := filepath.Join("..", "docs")
	text, pictures, err := sim.Document(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"algorithms.md": text}
	for name, picture := range pictures {
		files[name] = picture
	}
	for name, want := range files {
		path := filepath.Join(docs, filepath.FromSlash(name))
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("docs/%s is not what the engine does: make algorithms (%v)", name, err)
		}
	}
	old, err := filepath.Glob(filepath.Join(docs, "algorithms", "*"))
	if err != nil || len(old) != len(pictures) {
		t.Errorf("docs/algorithms holds %d files, %d of them drawn (%v)", len(old), len(pictures), err)
	}
}

// Whatever a limit is called, its picture is XML.
func TestPicturesAreXML(t *testing.T) {
	for _, p := range sim.Presets {
		odd := *p
		odd.Name = "a <b> & \"c\" 'd' ]]> \x01\x7f\xff\ufffe" + p.Name
		picture := sim.SVG(&odd, p.Limit, run(t, p.Name, ""))
		d := xml.NewDecoder(strings.NewReader(picture))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
		}
		for _, row := range run(t, p.Name, "").Algorithms {
			if !strings.Contains(picture, row.Algorithm) {
				t.Errorf("%s: no strip for %s", p.Name, row.Algorithm)
			}
		}
	}
}
