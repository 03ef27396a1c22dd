//go:build !race

package pagetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what should take no time, on a busy machine too.
const patience = 30 * time.Second

// daemon is weir serve as a process of its own.
type daemon struct {
	http, admin string // URLs
}

// serve runs weir serve until the test ends.
func serve(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	cmd := exec.Command(weir, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--drain-notice", "0s"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	type opened struct{ Msg, Door, Address string }
	doors := make(chan opened, 16)
	ended := make(chan struct{})
	var mu sync.Mutex
	var said bytes.Buffer
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			mu.Lock()
			said.Write(append(lines.Bytes(), '\n'))
			mu.Unlock()
			var o opened
			if json.Unmarshal(lines.Bytes(), &o) == nil && o.Msg == "open" {
				doors <- o
			}
		}
		_ = cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("weir serve does not end while a browser looks on")
			_ = cmd.Process.Kill()
		}
		if t.Failed() {
			mu.Lock()
			lines := strings.SplitAfter(said.String(), "\n")
			t.Logf("weir said last:\n%s", strings.Join(lines[max(0, len(lines)-20):], ""))
			mu.Unlock()
		}
	})
	d := new(daemon)
	for d.http == "" || d.admin == "" {
		select {
		case o := <-doors:
			switch o.Door {
			case "http":
				d.http = "http://" + o.Address
			case "admin":
				d.admin = "http://" + o.Address
			}
		case <-ended:
			t.Fatal("weir serve ended")
		case <-time.After(patience):
			t.Fatal("weir serve does not open")
		}
	}
	return d
}
