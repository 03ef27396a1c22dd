package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// given is a record as it came out: its time and place, and the text to show
// that room is not used anew too early.
type given struct {
	at   int64
	file int
	line int64
	path string
}

func drain(t *testing.T, files *Files) (all []given) {
	t.Helper()
	for {
		g, err := files.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range g.Records {
			all = append(all, given{r.At, r.File, r.Line, strings.Clone(r.Path)})
		}
		g.Done()
	}
}

// lineAt is a line of a log, named by its path.
func lineAt(at time.Time, path string) string {
	return fmt.Sprintf("192.0.2.1 - - [%s] \"GET %s HTTP/1.1\" 200 1\n", at.Format("02/Jan/2006:15:04:05 -0700"), path)
}

func open(t *testing.T, o Options, logs ...string) *Files {
	t.Helper()
	var names []string
	for i, text := range logs {
		name := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	files, err := Open(names, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(files.Close)
	return files
}

var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// TestOrder: lines come by time, then file, then line, however they stand within
// the window, and whole if the log is short.
func TestOrder(t *testing.T) {
	const n = 50_000
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name    string
		lines   int
		shuffle int // within so many lines
		step    time.Duration
	}{
		{"in order", n, 1, 100 * time.Millisecond}, {"shuffled within the window", n, 5000, 100 * time.Millisecond},
		{"a short log shuffled whole", heldLeast / 2, heldLeast, time.Minute}, {"all in one second", n, n, time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			order := make([]int, c.lines)
			for i := range order {
				order[i] = i
			}
			for from := 0; from < c.lines; from += c.shuffle {
				part := order[from:min(from+c.shuffle, c.lines)]
				r.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
			}
			var text strings.Builder
			for _, i := range order {
				text.WriteString(lineAt(monday.Add(time.Duration(i)*c.step), fmt.Sprintf("/%d", i)))
			}
			files := open(t, Options{}, text.String())
			got := drain(t, files)
			if len(got) != c.lines || !slices.IsSortedFunc(got, func(a, b given) int {
				return compareSlots(slot{at: a.at, place: a.line}, slot{at: b.at, place: b.line})
			}) {
				t.Errorf("%d lines, not in order", len(got))
			}
			for i, g := range got {
				if path := fmt.Sprintf("/%d", order[g.line-1]); g.path != path {
					t.Fatalf("line %d has the text of another: %s", i, g.path)
				}
			}
			if s := files.Summary(); s.Misplaced != 0 || s.Requests != int64(c.lines) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestLate: a line that comes long after its place has gone is counted, and
// given out at the time reached.
func TestLate(t *testing.T) {
	var text strings.Builder
	for i := range 2 * heldLeast {
		text.WriteString(lineAt(monday.Add(time.Duration(i)*time.Second), "/"))
	}
	text.WriteString(lineAt(monday, "/late"))
	files := open(t, Options{}, text.String())
	got := drain(t, files)
	if s := files.Summary(); s.Late != 1 || s.Misplaced != 1 || len(got) != 2*heldLeast+1 {
		t.Errorf("%+v, %d given out", s, len(got))
	}
	if !slices.IsSortedFunc(got, func(a, b given) int { return int(a.at - b.at) }) {
		t.Error("time went back")
	}
}

// TestFiles: logs of two servers, and parts of one in any order, are one log.
func TestFiles(t *testing.T) {
	var parts [4]strings.Builder
	for i := range 8000 { // 0 and 1: two servers by turns; 2 and 3: later parts, the last one first
		at := monday.Add(time.Duration(i) * time.Second)
		part := i % 2
		if i >= 4000 {
			part = 3 - (i-4000)/2000
		}
		parts[part].WriteString(lineAt(at, fmt.Sprintf("/%d", i)))
	}
	got := drain(t, open(t, Options{}, parts[0].String(), parts[1].String(), parts[2].String(), parts[3].String()))
	if len(got) != 8000 {
		t.Fatalf("%d given out", len(got))
	}
	for i, g := range got {
		if g.path != fmt.Sprintf("/%d", i) {
			t.Fatalf("at %d stands %s of file %d", i, g.path, g.file)
		}
	}
	if _, err := Open([]string{filepath.Join(t.TempDir(), "none.log")}, Options{}); err == nil {
		t.Error("a file that is not there is opened")
	}
	if _, err := Open([]string{t.TempDir()}, Options{}); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
}

// TestStdin: the name - is standard input, beside files too.
func TestStdin(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte(lineAt(monday.Add(time.Second), "/1")), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Open([]string{name, "-"}, Options{Stdin: strings.NewReader(lineAt(monday, "/0") + lineAt(monday.Add(2*time.Second), "/2"))})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if got := drain(t, files); len(got) != 3 || got[0].path != "/0" || got[1].path != "/1" || got[2].path != "/2" {
		t.Errorf("%+v", got)
	}
}

// TestSpread: the lines of a second are spread evenly over it, in their order.
func TestSpread(t *testing.T) {
	var text strings.Builder
	for i := range 50_000 {
		text.WriteString(lineAt(monday.Add(time.Duration(i/4)*time.Second), "/"))
	}
	for i, g := range drain(t, open(t, Options{Spread: true}, text.String())) {
		if want := monday.UnixMicro() + int64(i)*250_000; g.at != want || g.line != int64(i+1) {
			t.Fatalf("%d: %+v, want %d", i, g, want)
		}
	}
}

// TestAbandoned: whoever stops reading leaves nothing behind that waits.
func TestAbandoned(t *testing.T) {
	var text strings.Builder
	for range 3 * heldLeast {
		text.WriteString(lineAt(monday, "/"))
	}
	files := open(t, Options{}, text.String(), text.String())
	if _, err := files.Next(context.Background()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := files.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	files.Close() // waits for the goroutines
}
