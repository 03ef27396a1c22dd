package policyfile

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestSchemaFields: the schema names exactly the fields that the parser reads.
func TestSchemaFields(t *testing.T) {
	var doc struct {
		Definitions map[string]struct {
			Properties           map[string]any
			AdditionalProperties any
		}
	}
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]string{}
	names, _ := filepath.Glob("testdata/good/*.*")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parseTree(name, data)
		if err != nil {
			t.Fatal(err)
		}
		r := newReader(name, "testdata/good")
		r.shapes = shapes
		r.object(tree, "", "the policy file", r.fields(defaults(name)))
	}
	objects := 0
	for what, d := range doc.Definitions {
		if d.Properties == nil {
			continue
		}
		objects++
		if d.AdditionalProperties != false {
			t.Errorf("%s: the schema allows unknown fields", what)
		}
		in, read := slices.Sorted(maps.Keys(d.Properties)), slices.Sorted(slices.Values(shapes[what]))
		if !slices.Equal(in, read) {
			t.Errorf("%s: the schema has %q, the parser reads %q", what, in, read)
		}
	}
	if objects != len(shapes) {
		t.Errorf("the schema has %d objects, the parser %d: %q", objects, len(shapes), slices.Sorted(maps.Keys(shapes)))
	}
}

// TestSchemaJudges: the schema accepts every good file, and of the bad ones
// those whose fault is a field's name or shape are refused.
func TestSchemaJudges(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	judge := func(name string) (judged bool, err error) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := parseTree(name, data)
		if err != nil {
			return false, nil
		}
		return true, s.Validate(plainValue(tree))
	}
	good, _ := filepath.Glob("testdata/good/*.*")
	for _, name := range append(good, "sample.yaml") {
		if judged, err := judge(name); err != nil || !judged {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad, _ := filepath.Glob("testdata/bad/*.*")
	refused := 0
	for _, name := range bad {
		judged, err := judge(name)
		if err != nil {
			refused++
		}
		if judged && err == nil && strings.Contains(name, "unknown") && !strings.Contains(name, "anchor") {
			t.Errorf("%s: the schema accepts an unknown word", name)
		}
	}
	if refused < len(bad)/2 {
		t.Errorf("the schema refuses %d of %d bad files", refused, len(bad))
	}
}

// plainValue is a tree as encoding/json would give it.
func plainValue(n *node) any {
	switch n.kind {
	case text:
		return n.text
	case number:
		return json.Number(n.text)
	case boolean:
		return n.text == "true"
	case other:
		if f, err := strconv.ParseFloat(n.text, 64); err == nil {
			return f
		}
		return n.text
	case sequence:
		list := []any{}
		for _, item := range n.items {
			list = append(list, plainValue(item))
		}
		return list
	case mapping:
		m := map[string]any{}
		for i := 0; i < len(n.items); i += 2 {
			m[n.items[i].text] = plainValue(n.items[i+1])
		}
		return m
	}
	return nil
}
