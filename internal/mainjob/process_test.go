package mainjob

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// weir is the binary under test, built once.
var weir string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-mainjob-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	weir = filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-o", weir, "../../cmd/weir")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building cmd/weir:", err)
		return 1
	}
	return m.Run()
}

// process is a server that runs until its test ends.
type process struct {
	name   string
	output lockedBuffer
	cmd    *exec.Cmd
	ended  chan struct{}
}

// start runs a server and waits until addr accepts.
func start(t *testing.T, addr, name string, args ...string) *process {
	t.Helper()
	p := launch(t, name, args...)
	p.await(t, "listens on "+addr, func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
	return p
}

// launch runs a server and ends it with the test.
func launch(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(name), ended: make(chan struct{})}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.cmd = cmd
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is for its output to say
	}()
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, p.output.String())
		}
	})
	return p
}

// stop ends the process and waits until it has ended.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		t.Errorf("%s did not end on SIGTERM", p.name)
	}
}

// await waits until the process does what is named, and fails the test if it
// ends before or takes too long.
func (p *process) await(t *testing.T, what string, does func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !does() {
		select {
		case <-p.ended:
			t.Fatalf("%s ended before it %s", p.name, what)
		case <-late:
			t.Fatalf("%s never %s", p.name, what)
		case <-tick.C:
		}
	}
}

// lockedBuffer takes what a process prints while the test may read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
