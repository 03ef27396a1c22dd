package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// build compiles the binary under test, once.
var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "weir")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/weir").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building cmd/weir: %w\n%s", err, out)
	}
	return path, err
})

// daemon is a `weir serve` of its own process.
type daemon struct {
	addr   string
	cmd    *exec.Cmd
	output bytes.Buffer
	ended  chan struct{}
}

func startDaemon(t *testing.T, store string) *daemon {
	t.Helper()
	binary, err := build()
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	d := &daemon{addr: l.Addr().String(), ended: make(chan struct{})}
	must(t, l.Close())
	d.cmd = exec.Command(binary, "serve", "--store", store, "--http", d.addr, "--admin", "off")
	d.cmd.Stdout, d.cmd.Stderr = &d.output, &d.output // read when it has ended
	must(t, d.cmd.Start())
	go func() { defer close(d.ended); _ = d.cmd.Wait() }()
	t.Cleanup(func() {
		d.stop()
		if out := d.output.String(); t.Failed() || strings.Contains(out, "panic") {
			t.Errorf("a daemon said:\n%s", out)
		}
	})
	await(t, "a daemon is ready", func() bool {
		r, err := http.Get("http://" + d.addr + "/readyz")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return d
}

// stop ends the daemon as a supervisor would.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.kill()
	}
}

func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}

// answer is what a daemon says to a take.
type answer struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Source  string `json:"source"`
	Limit   int64  `json:"limit"`
}

var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

func (d *daemon) take(ctx context.Context, key, limit string) (a answer, err error) {
	body, err := json.Marshal(map[string]string{"key": key, "limit": limit})
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.addr+"/v1/take", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	w, err := web.Do(r)
	if err != nil {
		return a, err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(text, &a)
}
