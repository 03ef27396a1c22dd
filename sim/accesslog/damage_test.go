package accesslog

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// damaged returns copies of a log with random bytes, cut lines and wrong dates.
func damaged(data []byte, r *rand.Rand) map[string][]byte {
	noise, cut, dates := bytes.Clone(data), []byte{}, []byte{}
	for range len(noise)/50 + 1 {
		noise[r.IntN(len(noise))] = byte(r.Uint32())
	}
	for line := range bytes.Lines(data) {
		cut = append(cut, line[:r.IntN(len(line)+1)]...)
		if r.IntN(2) == 0 {
			cut = append(cut, '\n')
		}
		line = bytes.Clone(line)
		for i := range line {
			if isDigit(line[i]) && r.IntN(4) == 0 {
				line[i] = "0123456789-/:"[r.IntN(13)]
			}
		}
		dates = append(dates, line...)
	}
	return map[string][]byte{"noise": noise, "cut": cut, "dates": dates}
}

// TestDamaged reads damaged copies of every sample, and of the shared logs where
// they are: no crash, no stall, every line counted once, what was read in bounds.
func TestDamaged(t *testing.T) {
	names, err := filepath.Glob("testdata/*.log")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := filepath.Glob(filepath.Join(sharedLogs, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(shared) == 0 {
		t.Log("no damaged copies of real logs, which are not here")
	}
	r := rand.New(rand.NewPCG(7, 7))
	for _, name := range append(names, shared...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for kind, text := range damaged(data, r) {
			checkCounts(t, name+" "+kind, text)
		}
	}
}

// checkCounts reads a log of any content and holds the counts against its lines.
func checkCounts(t *testing.T, name string, text []byte) {
	t.Helper()
	reader, err := NewReader(bytes.NewReader(text), 0, Options{Wants: ^Wants(0)})
	if err != nil {
		return // what began like gzip was none
	}
	defer reader.Close()
	var room [64]Record
	for {
		clear(room[:])
		n, err := reader.Read(room[:])
		for i := range room[:n] {
			if r := &room[i]; r.At < 0 || r.At > r.Stamp || r.Stamp > maxStamp || r.Line < 1 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return // compressed bytes that are wrong
		}
		if n == 0 {
			t.Fatalf("%s: nothing read, and no end", name)
		}
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) || bytes.HasPrefix(text, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return
	}
	lines := int64(bytes.Count(text, []byte{'\n'}))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		lines++
	}
	if c := reader.Counts; c.Requests+c.Bad+c.Aside != lines {
		t.Errorf("%s: %+v of %d lines", name, c, lines)
	}
}

// FuzzReader reads whatever there is.
func FuzzReader(f *testing.F) {
	names, err := filepath.Glob("testdata/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f.Add([]byte(line))
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkCounts(t, "fuzz", text) })
}
