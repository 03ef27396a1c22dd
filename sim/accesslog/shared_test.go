package accesslog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sharedLogs are real logs that are not part of the project; where they lie
// beside it, everything is held against what their index says of them.
const sharedLogs = "../../../shared/logs"

// vhosts are the logs whose index takes the virtual host in front of a line for
// the client; the right numbers are ours.
var vhosts = map[string]int{"apache2-variants-crowdsec.log": 5, "nginx-variants-crowdsec.log": 1}

// TestSharedLogs reads every log of the index and compares lines read, lines not
// read, clients and span.
func TestSharedLogs(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(sharedLogs, "INDEX.md"))
	if err != nil {
		t.Logf("not held against real logs, which are not here: %v", err)
		return
	}
	files := 0
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(line, "|")
		if len(cells) < 9 || !strings.HasSuffix(strings.TrimSpace(cells[1]), ".log") {
			continue
		}
		files++
		name := strings.TrimSpace(cells[1])
		t.Run(name, func(t *testing.T) {
			var lines, read, bad, aside int64
			var clients, v6, named int
			scan(t, cells[4], "%d", &lines)
			scan(t, cells[5], "%d / %d / %d", &read, &bad, &aside)
			scan(t, cells[6], "%d (%d, %d)", &clients, &v6, &named)
			got := readAll(t, filepath.Join(sharedLogs, name))
			if got.Requests != read || got.Requests+got.Bad+got.Aside != lines {
				t.Errorf("read %+v; the index has %s of %d", got.Counts, cells[5], lines)
			}
			// An empty line is not read in one place of the index and skipped in others.
			if got.Bad != bad && got.Bad+got.Aside != bad+aside {
				t.Errorf("not read: %d and %d aside; the index has %d and %d", got.Bad, got.Aside, bad, aside)
			}
			if right, ok := vhosts[name]; ok {
				clients = right
			}
			if len(got.clients) != clients {
				t.Errorf("%d clients, the index has %d", len(got.clients), clients)
			}
			if span := strings.TrimSpace(cells[7]); read > 0 {
				if is := at(got.first) + " .. " + at(got.last); is != span {
					t.Errorf("span %s, the index has %s", is, span)
				}
			}
		})
	}
	if files < 20 {
		t.Errorf("the index lists %d files", files)
	}
}

func at(us int64) string { return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05Z") }

func scan(t *testing.T, s, format string, to ...any) {
	t.Helper()
	if _, err := fmt.Sscanf(strings.TrimSpace(s), format, to...); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
}

// whole is a log read to its end.
type whole struct {
	Counts
	records     []Record
	examples    []Bad
	clients     map[string]int
	first, last int64
}

func readAll(t *testing.T, name string) *whole {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readStream(t, f, "")
}

func readStream(t *testing.T, from io.Reader, format string) *whole {
	t.Helper()
	r, err := NewReader(from, 0, Options{Format: format, Wants: ^Wants(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := &whole{clients: map[string]int{}}
	var room [7]Record
	for {
		n, err := r.Read(room[:])
		for _, record := range room[:n] {
			w.records = append(w.records, record)
			w.clients[record.Client]++
			if w.first == 0 || record.Stamp < w.first {
				w.first = record.Stamp
			}
			w.last = max(w.last, record.Stamp)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Counts, w.examples = r.Counts, r.Examples
	return w
}
