package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/observe/stream"
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "weir-events-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "weir-events")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return run()
}

// process is the command at work.
type process struct {
	cmd    *exec.Cmd
	out    bytes.Buffer
	exited chan struct{}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is asked for below
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // the error is that it has ended
	<-p.exited
}

// finish runs the command to its end and returns what it printed and its status.
func finish(t *testing.T, args ...string) (string, int) {
	t.Helper()
	p := start(t, args...)
	<-p.exited
	return p.out.String(), p.cmd.ProcessState.ExitCode()
}

// must is finish for what has to end well.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, status := finish(t, args...)
	if status != 0 {
		t.Fatalf("%v ends with %d: %s", args, status, out)
	}
	return out
}

// trap is a way to a server that stops at a word which the client sends: what
// follows does not arrive, and caught is closed.
type trap struct {
	listener net.Listener
	to       string
	word     []byte
	caught   chan struct{}
	once     sync.Once
}

func newTrap(t *testing.T, to, word string) *trap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &trap{listener: l, to: to, word: []byte(word), caught: make(chan struct{})}
	go r.serve()
	t.Cleanup(func() { _ = l.Close() })
	return r
}

func (r *trap) url() string { return "redis://" + r.listener.Addr().String() }

func (r *trap) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		go r.pass(client, server)
	}
}

func (r *trap) pass(client, server net.Conn) {
	defer server.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], r.word) {
			r.once.Do(func() { close(r.caught) })
			<-make(chan struct{}) // the word never arrives
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// producer writes refusals into a stream.
type producer struct {
	stream  *stream.Stream
	limiter *weir.Limiter
	asked   int
}

func newProducer(t *testing.T, sink stream.Sink, o stream.Options) *producer {
	t.Helper()
	p := &producer{stream: stream.New(sink, o)}
	var err error
	if p.limiter, err = weir.New(weir.Options{Observer: p.stream}); err != nil {
		t.Fatal(err)
	}
	return p
}

// refuse has n decisions made, all refused.
func (p *producer) refuse(t *testing.T, n int) {
	t.Helper()
	for range n {
		d, err := p.limiter.Allow(context.Background(), fmt.Sprint("user:", p.asked%7), weir.PerMinute(0))
		if err != nil || d.Allowed {
			t.Fatal(d, err)
		}
		p.asked++
	}
}

func clientOf(t *testing.T, server *testredis.Server) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// inStream returns the IDs of the events in the stream, and how many entries hold
// them.
func inStream(t *testing.T, server *testredis.Server) (ids map[string]bool, entries int) {
	t.Helper()
	client := clientOf(t, server)
	all, err := client.Do(context.Background(), client.B().Xrange().Key("weir:events").Start("-").End("+").Build()).AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	ids = map[string]bool{}
	for _, entry := range all {
		ids[entry.FieldValues["id"]] = true
	}
	return ids, len(all)
}

// inTarget returns how often each ID is kept.
func inTarget(t *testing.T, name string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	if path, ok := strings.CutPrefix(name, "jsonl:"); ok {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			e, err := stream.FromLine([]byte(line))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			ids[e.ID]++
		}
		return ids
	}
	to, err := openTarget(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := to.(*sqlTarget).db.Query("SELECT id FROM weir_events")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids[id]++
	}
	if err := errors.Join(rows.Err(), to.close()); err != nil {
		t.Fatal(err)
	}
	return ids
}
