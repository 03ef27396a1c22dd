package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/observe/stream"
)

// kills is how often a consumer is killed: WEIR_KILLS, or a few.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_KILLS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// databases are what consumers write to.
func databases(t *testing.T) map[string]string {
	dir := t.TempDir()
	return map[string]string{
		"sqlite": "sqlite:" + filepath.Join(dir, "events.db"),
		"jsonl":  "jsonl:" + filepath.Join(dir, "events.jsonl"),
	}
}

// TestKilledConsumersKeepEveryEventOnce kills consumers at random, every second
// one between what it committed and the acknowledgement, which is held back until
// it is dead. In the end every event of the stream is kept once, and what was
// decided and is not in the stream was counted as dropped.
func TestKilledConsumersKeepEveryEventOnce(t *testing.T) {
	all := databases(t)
	all["postgres"] = startPostgres(t)
	for name, to := range all {
		t.Run(name, func(t *testing.T) {
			server := testredis.Start(t)
			sink, err := stream.ToRedis(server.URL(), stream.RedisOptions{Key: "weir:events", MaxLen: 10_000_000})
			if err != nil {
				t.Fatal(err)
			}
			p := newProducer(t, sink, stream.Options{Buffer: 1000})
			between := 0
			for i := range kills(t) {
				p.refuse(t, 400+rand.IntN(2000))
				name := fmt.Sprint("consumer", i%3)
				if i%2 == 0 {
					between += killBetween(t, server, to, name)
				} else {
					killAtRandom(t, server, to, name)
				}
			}
			p.refuse(t, 500)
			if err := p.stream.Close(); err != nil {
				t.Fatal(err)
			}
			must(t, "consume", "--store", server.URL(), "--to", to, "--once", "--name", "last", "--claim-after", "1ms")
			written, entries := inStream(t, server)
			kept := inTarget(t, to)
			for id := range written {
				if kept[id] != 1 {
					t.Fatalf("%s is kept %d times", id, kept[id])
				}
			}
			if len(kept) != len(written) || len(written)+int(p.stream.Dropped()) != p.asked || between == 0 {
				t.Errorf("%d decided, %d dropped, %d in the stream (%d entries), %d kept", p.asked, p.stream.Dropped(), len(written), entries, len(kept))
			}
			t.Logf("%d consumers killed, %d between commit and acknowledgement; %d decided, %d dropped, %d kept once", kills(t), between, p.asked, p.stream.Dropped(), len(kept))
		})
	}
}

// killBetween kills a consumer whose acknowledgement has left it and did not
// arrive: what it says to be kept is committed. It returns 1, or 0 if it had
// nothing to acknowledge.
func killBetween(t *testing.T, server *testredis.Server, to, name string) int {
	t.Helper()
	way := newTrap(t, server.Addr, "XACK")
	p := start(t, "consume", "--store", way.url(), "--to", to, "--name", name, "--claim-after", "1ms")
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	select {
	case <-way.caught:
		p.kill()
		return 1
	case <-p.exited:
		t.Fatalf("it ended: %s", p.out.String())
	case <-late.C:
		p.kill()
		t.Fatalf("nothing is acknowledged: %s", p.out.String())
	}
	return 0
}

// killAtRandom kills a consumer somewhere in its first half second.
func killAtRandom(t *testing.T, server *testredis.Server, to, name string) {
	t.Helper()
	p := start(t, "consume", "--store", server.URL(), "--to", to, "--name", name, "--claim-after", "1ms")
	at := time.NewTimer(rand.N(500 * time.Millisecond))
	defer at.Stop()
	select {
	case <-at.C:
	case <-p.exited:
		t.Fatalf("it ended: %s", p.out.String())
	}
	p.kill()
}

// TestFilesAreTakenOnce: segments of a daemon without Redis go the same way, past
// a line that was cut off, and each once however often it is asked.
func TestFilesAreTakenOnce(t *testing.T) {
	for name, to := range databases(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "decisions.jsonl")
			asked := 0
			write := func() {
				sink, err := stream.ToFile(stream.FileOptions{Path: path, Bytes: 50_000})
				if err != nil {
					t.Fatal(err)
				}
				p := newProducer(t, sink, stream.Options{})
				p.refuse(t, 1200)
				if err := p.stream.Close(); err != nil {
					t.Fatal(err)
				}
				asked += p.asked
			}
			take := func() string { return must(t, "consume", "--store", "file:"+path, "--to", to, "--once") }
			write()
			if out := take(); out != "1200 events kept\n" {
				t.Errorf("%q", out)
			}
			segments, err := stream.Segments(path)
			if err != nil || len(segments) < 2 {
				t.Fatalf("%v %v", segments, err)
			}
			last, err := os.OpenFile(segments[len(segments)-1].Path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := last.WriteString(`{"id":"cut`); err != nil {
				t.Fatal(err)
			}
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
			if out := take(); out != "0 events kept\n" {
				t.Errorf("again: %q", out)
			}
			write()
			if out := take(); !strings.Contains(out, "1200 events kept") || !strings.Contains(out, "passed over") {
				t.Errorf("after the next start: %q", out)
			}
			kept := inTarget(t, to)
			for id, n := range kept {
				if n != 1 {
					t.Errorf("%s is kept %d times", id, n)
				}
			}
			if len(kept) != asked {
				t.Errorf("%d kept of %d", len(kept), asked)
			}
		})
	}
}
