package rlsconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faults are files with one fault each, and what is said of it.
var faults = []struct{ name, file, want string }{
	{"empty", "", "f.yaml:1:1: config file cannot have empty domain"},
	{"no domain", "descriptors: []", "f.yaml:1:1: config file cannot have empty domain"},
	{"unit", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: fortnight}", "f.yaml:4:16: invalid rate limit unit 'fortnight'"},
	{"duplicate", "domain: d\ndescriptors:\n- {key: k, value: v}\n- {key: k, value: v}", "f.yaml:4:4: duplicate descriptor composite key 'd.k_v'"},
	{"duplicate wildcard", "domain: d\ndescriptors:\n- {key: k, value: v*}\n- {key: k, value: v*}", "f.yaml:4:4: duplicate descriptor"},
	{"no key", "domain: d\ndescriptors:\n- value: v", "f.yaml:3:3: descriptor has empty key"},
	{"misspelt", "domain: d\ndescriptors:\n- key: k\n  ratelimit: {}", `f.yaml:4:3: config error, unknown key 'ratelimit' in a descriptor; did you mean "rate_limit"?`},
	{"wrong level", "domain: d\ndescriptors:\n- key: k\n  unit: hour", "f.yaml:4:3: config error, unknown key 'unit' in a descriptor"},
	{"list of text", "domain: d\ndescriptors:\n- a", "f.yaml:3:3: config error, yaml file contains list of type other than map: a"},
	{"key is no text", "domain: d\n1: x", "f.yaml:2:1: config error, key is not of type string: 1"},
	{"replaces nothing", "domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    unit: day\n    replaces:\n    - name:", "f.yaml:7:7: should not have an empty replaces entry"},
	{"replaces itself", "domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    name: n\n    unit: day\n    replaces:\n    - name: n", "f.yaml:8:7: replaces should not contain name of same descriptor"},
	{"unlimited with unit", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unlimited: true, unit: day}", "f.yaml:4:16: should not specify rate limit unit when unlimited"},
	{"fraction", "domain: d\ndescriptors:\n- key: k\n  value: 1.5", "f.yaml:4:10: error checking config: 1.5"},
	{"fraction of requests", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1.0}", "error checking config"},
	{"quoted number", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: \"1\"}", "f.yaml:4:46: requests_per_unit must be a whole number, without quotes"},
	{"negative", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: -1}", "between 0 and 4294967295"},
	{"quoted truth", "domain: d\ndescriptors:\n- key: k\n  shadow_mode: \"true\"", "f.yaml:4:16: shadow_mode must be true or false"},
	{"share of nothing", "domain: d\ndescriptors:\n- key: k\n  share_threshold: true", "share_threshold goes with a value that has a *"},
	{"metadata of nothing", "domain: d\ndescriptors:\n- key: k\n  metadata: {a: b}", "metadata goes with a rate_limit"},
	{"own limit twice", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: day, requests_per_unit: 1}\n  weir: {limit: 1/s}", "f.yaml:5:17: limit: of weir: stands in place of"},
	{"own limit wrong", "domain: d\ndescriptors:\n- key: k\n  weir: {limit: 10r/s}", "f.yaml:4:17: "},
	{"own limit named", "domain: d\ndescriptors:\n- key: k\n  weir: {limit: 10/s name=n}", "rate_limit: {name: n}"},
	{"own failure twice", "domain: d\ndescriptors:\n- key: k\n  weir: {limit: 10/s on_store_failure=open, on_store_failure: closed}", "stands twice"},
	{"own failure unknown", "domain: d\ndescriptors:\n- key: k\n  weir: {limit: 10/s, on_store_failure: deny}", "local, share, open or closed"},
	{"own nothing", "domain: d\ndescriptors:\n- key: k\n  weir: {on_store_failure: closed}", "needs a rate_limit beside it"},
	{"limitador", "- namespace: n\n  max_value: 3\n  seconds: 1", "this is the format of limitador"},
	{"Kubernetes", "apiVersion: v1\nkind: ConfigMap\ndata: {}", "f.yaml:1:1: config error, unknown key 'apiVersion': this is a Kubernetes object"},
	{"no YAML", "domain: [", "error loading config file: this is not YAML"},
	{"unknown anchor", "domain: *d", "unknown anchor 'd'"},
	{"nested", "domain: " + strings.Repeat("[", 200), "nested too deeply"},
}

func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			_, err := Parse(Options{}, "f.yaml", f.file)
			if err == nil || !strings.Contains(err.Error(), f.want) {
				t.Errorf("got %v\nwant %s", err, f.want)
			}
		})
	}
}

// TestAsWritten holds the reader to YAML 1.1 where that server shows it.
func TestAsWritten(t *testing.T) {
	for _, c := range []struct{ value, limit, want string }{
		{"0123", "010", "0123 8"},
		{"yes", "1_000", "yes 1000"},
		{"2024-01-01", "0x10", "2024-01-01 16"},
		{"true", "7", "true 7"},
		{"10.0.0.1", "7", "10.0.0.1 7"},
		{"'1.0'", "7", "1.0 7"},
		{"\"a\\tb\"", "7", "a\tb 7"},
		{"a", "1, requests_per_unit: 2", "a 2"}, // the last wins
		{"&v b", "2", "b 2"},
		{"a", "4294967295", "a 4294967295"},
	} {
		conf, err := Parse(Options{}, "f.yaml", "domain: d\ndescriptors:\n- key: k\n  value: "+c.value+
			"\n  rate_limit: {unit: day, requests_per_unit: "+c.limit+"}\n---\ndomain: not read\n")
		if err != nil {
			t.Errorf("%s: %v", c.value, err)
			continue
		}
		value, _, _ := strings.Cut(c.want, " ")
		_, rule := conf.Domain("d").Match(1, func(int) (string, string) { return "k", value }, nil)
		if rule == nil || !strings.HasSuffix(c.want, " "+decimal(rule.Requests)) {
			t.Errorf("%s, %s: %+v, want %s", c.value, c.limit, rule, c.want)
		}
	}
	// Anchors and merge keys, as people write them to say a limit once.
	conf, err := Parse(Options{}, "f.yaml", "domain: d\ndescriptors:\n- key: a\n  rate_limit: &l {unit: day, requests_per_unit: 5}\n"+
		"- key: b\n  rate_limit: *l\n- key: c\n  rate_limit: {<<: *l, requests_per_unit: 6}\n")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"a": 5, "b": 5, "c": 6} {
		if _, rule := conf.Domain("d").Match(1, func(int) (string, string) { return key, "x" }, nil); rule == nil || rule.Requests != want {
			t.Errorf("%s: %+v", key, rule)
		}
	}
}

func decimal(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + string(rune('0'+n%10))
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "holds no .yaml file") {
		t.Errorf("an empty directory: %v", err)
	}
	write("..data/a.yaml", "domain: a\n")
	write("sub/b.yml", "domain: b\n")
	write("notes.txt", "none of ours")
	if err := os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	before := Print(dir)
	c, err := Load(dir, Options{})
	if err != nil || len(c.Files) != 2 || c.Domain("a") == nil || c.Domain("b") == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	write("c.yaml", "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	if Print(dir) == before {
		t.Error("a new file is not seen")
	}
	if _, err := Load(dir, Options{}); err == nil || !strings.Contains(err.Error(), "c.yaml:1:1: duplicate domain 'a' in config file") {
		t.Errorf("one domain in two files: %v", err)
	}
	if c, err = Load(dir, Options{Merge: true}); err != nil {
		t.Fatal(err)
	}
	if _, rule := c.Domain("a").Match(1, func(int) (string, string) { return "k", "v" }, nil); rule == nil {
		t.Error("the second file of a domain is not merged")
	}
}

func FuzzParse(f *testing.F) {
	for _, one := range faults {
		f.Add(one.file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(Options{}, "f.yaml", text)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
	})
}
