package identity

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spellings are ways to write /api/login that every server takes for it.
func spellings(t testing.TB) []string {
	t.Helper()
	return lines(t, "testdata/spellings.txt")
}

func lines(t testing.TB, file string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(readFile(t, file)), "\n"), "\n")
}

func TestSpellingsCleanToOne(t *testing.T) {
	list := spellings(t)
	if len(list) < 40 {
		t.Fatalf("%d spellings; at least 40 are wanted", len(list))
	}
	for _, raw := range list {
		if got := CleanPath(raw); got != "/api/login" {
			t.Errorf("%s cleans to %s", raw, got)
		}
		if !slices.Contains(AppendReadings(nil, raw), "/api/login") {
			t.Errorf("%s is not read as itself", raw)
		}
	}
}

// Each line of ambiguous.txt is a raw path and its readings, in any order but
// for the first, CleanPath's.
func TestReadings(t *testing.T) {
	for _, line := range lines(t, "testdata/ambiguous.txt") {
		fields := strings.Split(line, "\t")
		raw, want := fields[0], fields[1:]
		for i, s := range want {
			if unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `\`, `\\`) + `"`); err == nil {
				want[i] = strings.NewReplacer(`\x00`, "\x00", `\xff`, "\xff").Replace(unquoted)
			}
		}
		got := AppendReadings([]string{"kept"}, raw)
		if got[0] != "kept" || CleanPath(raw) != want[0] {
			t.Errorf("%q cleans to %q, want %q", raw, CleanPath(raw), want[0])
		}
		got = got[1:]
		if got[0] != want[0] || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%q is read as %q, want %q", raw, got, want)
		}
	}
}

func TestCleanPathsCostNothing(t *testing.T) {
	var room [16]string
	for _, raw := range []string{"/", "/api/login", "/api/login?x=1", "/a/b/c/d/e/f.html"} {
		if n := testing.AllocsPerRun(100, func() { CleanPath(raw); AppendReadings(room[:0], raw) }); n != 0 {
			t.Errorf("%s: %v allocations", raw, n)
		}
	}
}

func TestCleanHost(t *testing.T) {
	for raw, want := range map[string]string{
		"example.com": "example.com", "Example.COM": "example.com", "example.com:8080": "example.com",
		"example.com.": "example.com", "EXAMPLE.com.:443": "example.com", "": "", ":80": "",
		"[2001:DB8::1]:443": "2001:db8::1", "[::1]": "::1", "192.0.2.1:80": "192.0.2.1", "::1": "::1",
		"[::1": "[::1",
	} {
		if got := CleanHost(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, raw := range spellings(f) {
		f.Add(raw)
	}
	for _, line := range lines(f, "testdata/ambiguous.txt") {
		raw, _, _ := strings.Cut(line, "\t")
		f.Add(raw)
	}
	f.Add("/a;x%2F..%5C..//;/b")
	f.Fuzz(func(t *testing.T, raw string) {
		readings := AppendReadings(nil, raw)
		if len(readings) < 1 || len(readings) > 16 || readings[0] != CleanPath(raw) {
			t.Fatalf("%q: readings %q, clean %q", raw, readings, CleanPath(raw))
		}
		for i, r := range readings {
			if slices.Contains(readings[:i], r) {
				t.Errorf("%q: %q twice", raw, r)
			}
			// What is clean has nothing left to walk.
			if r[0] != '/' || r != path.Clean(r) {
				t.Errorf("%q: reading %q is not clean", raw, r)
			}
		}
		// The server of the standard library decodes everything and walks the
		// dots of that; what it serves must be among the readings.
		if served, ok := servedByStandardLibrary(raw); ok && !slices.Contains(readings, served) {
			t.Errorf("%q is served as %q, and read as %q", raw, served, readings)
		}
		if marked := CleanPath("/m" + raw); strings.HasPrefix(raw, "/") && !strings.Contains(raw, "..") && !strings.Contains(strings.ToLower(raw), "%2e") {
			// A path without .. keeps what stands before it.
			if !strings.HasPrefix(marked, "/m") {
				t.Errorf("%q lost its first name: %q", "/m"+raw, marked)
			}
		}
	})
}
