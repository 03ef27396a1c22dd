package migrate

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/policy/policyfile"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden: each sample becomes the policy that stands beside it, to be read
// as a whole, and every one loads.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(s string) bool { return strings.HasSuffix(s, ".golden") })
	if len(names) < 6 {
		t.Fatalf("samples are missing: %q", names)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Policy(filepath.Base(name), "", text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := policyfile.Parse("policy", got); err != nil {
				t.Errorf("it does not load: %v", err)
			}
			golden := strings.TrimSuffix(name, filepath.Ext(name)) + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestErrors: what cannot be read says why, with its line where there is one.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"", "hello", "looks like none of nginx, envoy"},
		{"cobol", "hello", `unknown kind "cobol"`},
		{"nginx", "http {\n limit_req zone=a", "line 2: the file ends within"},
		{"nginx", "a b;\n}", "line 2: \"}\" stands where it cannot"},
		{"nginx", "a 'b;", "a quote without its end"},
		{"envoy", "descriptors: 5", "[1:14]"},
		{"limitador", "- max_value: x", "MaxValue"},
	} {
		if _, err := Policy("f", c.kind, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// FuzzPolicy: whatever is read ends in a text or an error.
func FuzzPolicy(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i := range Kinds {
			f.Add(uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		got, err := Policy("f", Kinds[int(kind)%len(Kinds)], text)
		if err == nil && !strings.Contains(string(got), "limits:") {
			t.Errorf("no policy: %q", got)
		}
	})
}
