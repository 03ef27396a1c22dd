package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSegments: files turn at their size, the oldest go, and a process that starts
// again goes on behind the one that was killed.
func TestSegments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	event := Event{ID: strings.Repeat("ab", 16), Weight: 1}
	write := func(n int) {
		t.Helper()
		sink, err := ToFile(FileOptions{Path: path, Bytes: 500, Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			event.Rule = strconv.Itoa(i)
			if w, err := sink.Write(context.Background(), []Event{event}); w != 1 || err != nil {
				t.Fatal(w, err)
			}
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(12)
	write(1)
	segments, err := Segments(path)
	if err != nil || len(segments) != 3 {
		t.Fatalf("%v %v", segments, err)
	}
	var rules []string
	for _, s := range segments {
		text, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			e, err := FromLine([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, e.Rule)
		}
	}
	if n := len(rules); rules[n-1] != "0" || rules[n-2] != "11" || segments[2].Number < 4 {
		t.Errorf("%v in %v", rules, segments)
	}
}

// TestStartsThatWriteNothing push no events out: a daemon that fails at its start is
// started again and again.
func TestStartsThatWriteNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	event := []Event{{ID: strings.Repeat("ab", 16), Weight: 1}}
	begin := func(events []Event) *fileSink {
		t.Helper()
		sink, err := ToFile(FileOptions{Path: path, Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sink.Close() }) // it has not ended well
		if n, err := sink.Write(t.Context(), events); n != len(events) || err != nil {
			t.Fatal(n, err)
		}
		return sink.(*fileSink)
	}
	begin(event)
	begin(event)
	for range 5 {
		begin(nil)
	}
	segments, err := Segments(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, s := range segments {
		text, err := os.ReadFile(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines != 2 {
		t.Errorf("%d events in %v", lines, segments)
	}
	old, next := begin(nil), begin(nil) // the one before is still ending
	if n, err := old.Write(t.Context(), event); n != 1 || err != nil {
		t.Error(n, err)
	}
	if err := next.turn(); err != nil {
		t.Error(err)
	}
}

// TestASegmentThatCannotBeEnded: the file that was written to is at fault, and what
// comes goes into the next one.
func TestASegmentThatCannotBeEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	made, err := ToFile(FileOptions{Path: path, Bytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	sink := made.(*fileSink)
	event := []Event{{ID: strings.Repeat("ab", 16), Weight: 1}}
	if _, err := sink.Write(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if err := sink.file.Close(); err != nil { // as a disk that fails: neither Sync nor Close go well
		t.Fatal(err)
	}
	if _, err := sink.Write(t.Context(), event); err == nil {
		t.Error("nobody is told that a segment may not be on the disk")
	}
	for i := range 3 {
		if n, err := sink.Write(t.Context(), event); n != 1 || err != nil {
			t.Errorf("write %d after it: %d, %v", i, n, err)
		}
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

// TestHalfALineThatStays: what was written of a line cannot be taken back, as from a
// pipe, so the next line begins a segment.
func TestHalfALineThatStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	made, err := ToFile(FileOptions{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	sink := made.(*fileSink)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(sink.file.Close(), os.Remove(segmentPath(path, 1)),
		raw.Control(func(fd uintptr) { err = os.Symlink(fmt.Sprintf("/dev/fd/%d", fd), segmentPath(path, 1)) }), err)
	if err != nil {
		t.Fatal(err)
	}
	sink.file = w
	events := make([]Event, 1000) // more than a pipe holds
	for i := range events {
		events[i] = Event{ID: strings.Repeat("ab", 16), Weight: 1, Rule: strings.Repeat("r", 1000)}
	}
	go func() { // lets the writer write what fits, and no more
		_, _ = r.Read(make([]byte, 1))
		_ = r.Close()
	}()
	if n, err := sink.Write(t.Context(), events); n != 0 || err == nil {
		t.Fatal(n, err)
	}
	for range 2 { // the first may tell that the pipe cannot be synced
		if n, err := sink.Write(t.Context(), events[:1]); n == 1 && err == nil {
			break
		}
	}
	if text, err := os.ReadFile(segmentPath(path, 2)); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Errorf("%v, %.100s", err, text)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

// TestASegmentThatIsGone: what is written after somebody has removed the segment, or its
// folder, or moved it away, stands in the next one, or is not counted as written.
func TestASegmentThatIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "events.jsonl")
	sink, err := ToFile(FileOptions{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	write := func(rule string) (int, error) {
		return sink.Write(context.Background(), []Event{{ID: strings.Repeat("ab", 16), Weight: 1, Rule: rule}})
	}
	stands := func(rule string, number int) {
		t.Helper()
		if text, err := os.ReadFile(segmentPath(path, number)); err != nil || !strings.Contains(string(text), `"rule":"`+rule+`"`) {
			t.Errorf("%s is not in segment %d: %v\n%s", rule, number, err, text)
		}
	}
	for i, take := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(segmentPath(path, 1)) },
		func() error { return os.Rename(segmentPath(path, 2), path+".old") },
		func() error { return sink.(*fileSink).file.Close() }, // as where the end of a segment cannot be written
	} {
		if err := take(); err != nil {
			t.Fatal(err)
		}
		rule := strconv.Itoa(i)
		n, err := write(rule)
		if err != nil { // told of, and written again
			n, err = write(rule)
		}
		if n != 1 || err != nil {
			t.Fatal(i, n, err)
		}
		stands(rule, i+1)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if n, err := write("nowhere"); n != 0 || err == nil {
		t.Errorf("%d written into a folder that is not there, %v", n, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := write("back"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	stands("back", 5)
}
