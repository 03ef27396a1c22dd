package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/observe/stream"
)

// refusals writes n refusals into a stream and returns their IDs in order.
func refusals(t *testing.T, server *testredis.Server, n int) (ids []string) {
	t.Helper()
	client := clientOf(t, server)
	for i := range n {
		e := stream.Event{ID: fmt.Sprint("id", i), TimeMS: 1, Reason: "limited", Weight: 1}
		add := client.B().Arbitrary("XADD").Keys("weir:events").Args("*").Args(e.Fields()...).Build()
		if err := client.Do(context.Background(), add).Error(); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}

func sourceOf(t *testing.T, server *testredis.Server) *streamSource {
	t.Helper()
	from, err := openStream(t.Context(), server.URL(), streamOptions{"weir:events", "g", "me", time.Minute, true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.close() })
	return from.(*streamSource)
}

func eventIDs(b batch) string {
	var ids []string
	for _, e := range b.events {
		ids = append(ids, e.ID)
	}
	return strings.Join(ids, " ")
}

// TestABatchThatIsNotKeptComesAgain: what the database did not take is the next
// that is handed out, so that --once does not end well without it.
func TestABatchThatIsNotKeptComesAgain(t *testing.T) {
	server := testredis.Start(t)
	from := sourceOf(t, server)
	want := strings.Join(refusals(t, server, 3), " ")
	for range 2 { // what is new, and what is asked for again
		for try := range 3 {
			b, err := from.next(t.Context())
			if err != nil || eventIDs(b) != want {
				t.Fatalf("try %d: %q, %v; want %q", try, eventIDs(b), err, want)
			}
		}
		from = sourceOf(t, server)
	}
	b, err := from.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := from.acknowledge(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if b, err := from.next(t.Context()); err != nil || !b.empty() {
		t.Errorf("after it was kept: %q, %v", eventIDs(b), err)
	}
}

// TestAStreamThatIsGoneIsBegunAgain: the server came back empty, and whatever is
// asked next finds no group.
func TestAStreamThatIsGoneIsBegunAgain(t *testing.T) {
	server := testredis.Start(t)
	for name, change := range map[string]func(*streamSource){
		"own":      func(s *streamSource) { s.mine = "0" },
		"others'":  func(s *streamSource) { s.mine, s.claimed = "", time.Time{} },
		"what new": func(s *streamSource) { s.mine, s.claimed = "", time.Now() },
	} {
		client := clientOf(t, server)
		from := sourceOf(t, server)
		change(from)
		if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if b, err := from.next(t.Context()); err != nil || !b.empty() {
			t.Errorf("%s: %q, %v", name, eventIDs(b), err)
			continue
		}
		want := strings.Join(refusals(t, server, 2), " ")
		if b, err := from.next(t.Context()); err != nil || eventIDs(b) != want {
			t.Errorf("%s: %q, %v", name, eventIDs(b), err)
		}
	}
}

// TestWhatNoDatabaseTakesIsNoEvent: one entry that somebody else wrote must not
// keep all that is behind it from being kept.
func TestWhatNoDatabaseTakesIsNoEvent(t *testing.T) {
	good := stream.Event{ID: "good", Weight: 1}
	for name, change := range map[string]func(map[string]string){
		"infinite weight": func(f map[string]string) { f["weight"] = "+Inf" },
		"zero byte in id": func(f map[string]string) { f["id"] = "a\x00b" },
		"no UTF-8 in id":  func(f map[string]string) { f["id"] = "a\xffb" },
		"an endless id":   func(f map[string]string) { f["id"] = strings.Repeat("a", 8192) }, // PostgreSQL indexes 2,704 bytes
	} {
		fields := map[string]string{}
		pairs := good.Fields()
		for i := 0; i < len(pairs); i += 2 {
			fields[pairs[i]] = pairs[i+1]
		}
		change(fields)
		if e, err := stream.FromFields(fields); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if _, err := (&stream.Event{ID: "a", Weight: math.MaxFloat64}).AppendLine(nil); err != nil {
		t.Error(err)
	}
}

// TestSegmentsThatBeganAnew: somebody removed all of them, and their numbers begin
// at 1 again, below the position that was kept.
func TestSegmentsThatBeganAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	write := func(id string, segment int) {
		line, err := (&stream.Event{ID: id, Weight: 1}).AppendLine(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.Replace(path, ".jsonl", fmt.Sprintf(".%06d.jsonl", segment), 1), line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first", 1)
	write("second", 2)
	for position, want := range map[string]string{"7:100": "first second", "2:100000": "second"} {
		from, err := openFiles(path, position, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			b, err := from.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if b.empty() {
				break
			}
			got = append(got, eventIDs(b))
			if err := from.acknowledge(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("from %s on: %q, want %q", position, text, want)
		}
	}
}

// TestEachSourceHasItsPlace: what is taken from one does not send another back to its
// beginning.
func TestEachSourceHasItsPlace(t *testing.T) {
	for name, to := range databases(t) {
		for round, want := range []map[string]string{{"file:a": "", "file:a b": ""}, {"file:a": "1:10", "file:a b": "1:20"}, {"file:a": "2:10", "file:a b": "2:20"}} {
			target, err := openTarget(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			for source, position := range want {
				if got, err := target.position(t.Context(), source); got != position || err != nil {
					t.Errorf("%s: %s is at %q, %v; want %q", name, source, got, err, position)
				}
			}
			for source, offset := range map[string]int{"file:a": 10, "file:a b": 20} {
				if _, err := target.keep(t.Context(), source, batch{position: fmt.Sprintf("%d:%d", round+1, offset)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := target.close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// oldServer answers as a Redis 6.2 of which one pending entry was trimmed away: it
// stands in what is claimed as nothing.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pairs := (&stream.Event{ID: "left", Reason: "limited", Weight: 1}).Fields()
	entry := fmt.Sprintf("*2\r\n$3\r\n7-0\r\n*%d\r\n", len(pairs))
	for _, p := range pairs {
		entry += fmt.Sprintf("$%d\r\n%s\r\n", len(p), p)
	}
	answers := map[string]string{
		"HELLO": "-ERR unknown command `HELLO`\r\n", "XGROUP": "+OK\r\n", "XREADGROUP": "*-1\r\n", "XACK": ":1\r\n",
		"XAUTOCLAIM": "*2\r\n$3\r\n0-0\r\n*2\r\n*-1\r\n" + entry,
	}
	serve := func(conn net.Conn) {
		defer conn.Close()
		from := bufio.NewReader(conn)
		for {
			words := 0
			if _, err := fmt.Fscanf(from, "*%d\r\n", &words); err != nil {
				return
			}
			command := ""
			for i := range words {
				size := 0
				if _, err := fmt.Fscanf(from, "$%d\r\n", &size); err != nil {
					return
				}
				text := make([]byte, size+2)
				if _, err := io.ReadFull(from, text); err != nil {
					return
				}
				if i == 0 {
					command = strings.ToUpper(string(text[:size]))
				}
			}
			if _, err := io.WriteString(conn, cmp.Or(answers[command], "+OK\r\n")); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "redis://" + l.Addr().String()
}

// TestWhatIsTrimmedBeforeItIsClaimed keeps nothing else from being claimed.
func TestWhatIsTrimmedBeforeItIsClaimed(t *testing.T) {
	from, err := openStream(t.Context(), oldServer(t), streamOptions{"weir:events", "g", "me", time.Minute, true})
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	if b, err := from.next(t.Context()); err != nil || eventIDs(b) != "left" {
		t.Errorf("%q, %v", eventIDs(b), err)
	}
}

// TestWhatIsNotWrittenIsNotKnown: a disk that stays full must not fill what is known
// of the last lines with events that stand nowhere, and forget those that do.
func TestWhatIsNotWrittenIsNotKnown(t *testing.T) {
	made, err := openLines(filepath.Join(t.TempDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	to := made.(*linesTarget)
	keep := func(ids ...string) (int64, error) {
		var b batch
		for _, id := range ids {
			b.events = append(b.events, stream.Event{ID: id, Weight: 1})
		}
		return to.keep(t.Context(), "", b)
	}
	if n, err := keep("a", "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	file := to.file
	if to.file, err = os.Open(file.Name()); err != nil { // which cannot be written
		t.Fatal(err)
	}
	for range 3 {
		if n, err := keep("b"); n != 0 || err == nil {
			t.Fatal(n, err)
		}
	}
	if err := to.file.Close(); err != nil {
		t.Fatal(err)
	}
	to.file = file
	if n, err := keep("b", "a"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := strings.Join(to.recent, " "); got != "a b" {
		t.Errorf("the last lines are taken for %q", got)
	}
	if err := to.close(); err != nil {
		t.Error(err)
	}
}

// TestALinesFileThatIsGone: what comes after somebody has moved the file away or removed
// it stands in a new one of its name, and what was kept before is still known.
func TestALinesFileThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	to, err := openLines(path)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(ids ...string) {
		t.Helper()
		var b batch
		for _, id := range ids {
			b.events = append(b.events, stream.Event{ID: id, Weight: 1})
		}
		if _, err := to.keep(t.Context(), "", b); err != nil {
			t.Fatal(err)
		}
	}
	keep("a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	keep("a", "b")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	keep("c")
	for name, want := range map[string]string{path + ".1": "a", path: "c"} {
		if text := string(read(name)); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"id":"`+want+`"`) {
			t.Errorf("%s holds %s", filepath.Base(name), text)
		}
	}
	if again, err := openLines(path); err == nil {
		t.Error("the new file is not locked", again.close())
	}
	if err := to.close(); err != nil {
		t.Error(err)
	}
}
