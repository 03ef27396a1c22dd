package weir_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// house is the tree as the rules see it.
type house struct {
	files  []*file
	fset   *token.FileSet
	listed bool // the whole tree, so that lists can be held against it
}

// file is one text file. Only Go files of the root module have a syntax tree.
type file struct {
	path   string
	source []byte
	syntax *ast.File
}

func (f *file) dir() string {
	if d := path.Dir(f.path); d != "." {
		return d
	}
	return ""
}

func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// readHouse reads every text file that is or may be committed. Modules of their
// own, such as bench, follow the rules on text but not those on imports.
func readHouse(t *testing.T) *house {
	h := &house{fset: token.NewFileSet(), listed: true}
	modules := map[string]bool{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || p == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			_, err := os.Stat(filepath.Join(p, "go.mod"))
			own := p != "." && err == nil || modules[path.Dir(p)]
			modules[p] = own
			return nil
		case !d.Type().IsRegular() || !readable(p):
			return nil
		}
		source, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return h.add(filepath.ToSlash(p), source, !modules[path.Dir(p)])
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// readable reports whether a file is text that people write.
func readable(p string) bool {
	switch path.Ext(p) {
	case ".go", ".lua", ".md", ".yaml", ".yml", ".sh", ".conf", ".html", ".js", ".css", ".txt", ".json", ".mod":
		return !strings.Contains(p, "testdata/fuzz/")
	case "":
		return path.Base(p) != "LICENSE" && path.Base(p) != "weir"
	}
	return false
}

func plantedHouse(t *testing.T, tree string) *house {
	h := &house{fset: token.NewFileSet()}
	for part := range strings.SplitSeq(strings.TrimPrefix(tree, "== "), "\n== ") {
		name, source, _ := strings.Cut(part, "\n")
		if err := h.add(name, []byte(source), true); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *house) add(p string, source []byte, ours bool) error {
	f := &file{path: p, source: source}
	if ours && path.Ext(p) == ".go" && !strings.Contains(p, "testdata/") {
		syntax, err := parser.ParseFile(h.fset, p, source, parser.ParseComments)
		if err != nil {
			return err
		}
		f.syntax = syntax
	}
	h.files = append(h.files, f)
	return nil
}

// production yields the Go files that ship.
func (h *house) production(yield func(*file) bool) {
	for _, f := range h.files {
		if f.syntax != nil && !f.test() && !yield(f) {
			return
		}
	}
}

// at says where a node is.
func (h *house) at(f *file, n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, h.fset.Position(n.Pos()).Line)
}

// lines yields every line of every file with its place.
func (h *house) lines(yield func(at, line string) bool) {
	for _, f := range h.files {
		n := 0
		for line := range bytes.Lines(f.source) {
			n++
			if !yield(fmt.Sprintf("%s:%d", f.path, n), string(line)) {
				return
			}
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tName%d = %d\n", i, i)
	}
	return b.String()
}
