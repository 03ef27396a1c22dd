package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// patience bounds what should take no time, on a busy machine too.
const patience = 30 * time.Second

// process is weir as a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string // of its first door
	admin string // URL of its admin door, if it has one
	ended chan struct{}

	mu     sync.Mutex
	said   bytes.Buffer
	opened chan string
}

// start runs weir until its test ends and returns when its doors are open. Its
// admin door is on a port of its own.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("weir", append(args, "--log-format", "json")...), ended: make(chan struct{}), opened: make(chan string, 8)}
	p.cmd.Env = append(os.Environ(), "WEIR_ADMIN=127.0.0.1:0")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.listen(stderr)
		_ = p.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if t.Failed() {
			p.mu.Lock()
			t.Log(p.said.String())
			p.mu.Unlock()
		}
	})
	p.url = p.door()
	if args[0] == "serve" {
		p.admin = p.door()
	}
	return p
}

// door returns the URL of the next door that opens.
func (p *process) door() string {
	p.t.Helper()
	select {
	case addr := <-p.opened:
		return "http://" + addr
	case <-p.ended:
		p.t.Fatalf("it ended: %s", p.said.String())
	case <-time.After(patience):
		p.t.Fatal("it does not open")
	}
	return ""
}

func (p *process) listen(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		p.mu.Lock()
		p.said.Write(append(lines.Bytes(), '\n'))
		p.mu.Unlock()
		var entry struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "open" {
			p.opened <- entry.Address
		}
	}
}

// signal sends s, if the process is still there.
func (p *process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !strings.Contains(err.Error(), "finished") {
		p.t.Error(err)
	}
}

// wait returns the exit code once the process has ended.
func (p *process) wait() int {
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Error("it does not end")
		if err := p.cmd.Process.Kill(); err != nil {
			p.t.Error(err)
		}
		<-p.ended
	}
	return p.cmd.ProcessState.ExitCode()
}

// until calls try until it returns "", and fails with what it returned last.
func until(t *testing.T, try func() string) {
	t.Helper()
	over := time.After(patience)
	for {
		last := try()
		if last == "" {
			return
		}
		select {
		case <-over:
			t.Fatalf("in vain: %s", last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// get waits until a GET holds all of texts in its status and body.
func (p *process) becomes(path string, texts ...string) {
	p.t.Helper()
	until(p.t, func() string {
		w, err := http.Get(p.url + path)
		if err != nil {
			return err.Error()
		}
		return answered(w, texts)
	})
}

const takeBody = `{"key":"k","limit":"1000000/s"}`

// TestDrain: at SIGTERM readyz says so, who is in the middle of a request is
// answered, and the process ends by itself.
func TestDrain(t *testing.T) {
	p := start(t, "serve", "--http", "127.0.0.1:0", "--drain-notice", "500ms")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(takeBody), takeBody[:5])
	p.becomes("/readyz", "200", `"status":"ready"`)
	p.signal(syscall.SIGTERM)
	p.becomes("/readyz", "503", `"status":"draining"`)
	until(t, func() string { // the listener closes, the connection stays
		c, err := net.Dial("tcp", conn.RemoteAddr().String())
		if err == nil {
			return "still listening: " + fmt.Sprint(c.Close())
		}
		return ""
	})
	select {
	case <-p.ended:
		t.Fatal("it did not wait")
	default:
	}
	fmt.Fprint(conn, takeBody[5:])
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || w.StatusCode != 200 || !w.Close {
		t.Fatalf("%+v %v", w, err)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestDrainUnderLoad: clients that keep their connections busy lose no request:
// each is told on its last answer to go elsewhere.
func TestDrainUnderLoad(t *testing.T) {
	p := start(t, "serve", "--http", "127.0.0.1:0", "--drain-notice", "1s")
	var clients sync.WaitGroup
	begun := make(chan struct{}, 16)
	for range cap(begun) {
		clients.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			reader := bufio.NewReader(conn)
			for n := 0; ; n++ {
				fmt.Fprintf(conn, "POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(takeBody), takeBody)
				w, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Errorf("request %d was cut off: %v", n, err)
					return
				}
				if _, err := io.Copy(io.Discard, w.Body); err != nil || w.StatusCode != 200 {
					t.Errorf("request %d: %d %v", n, w.StatusCode, err)
					return
				}
				if n == 20 {
					begun <- struct{}{}
				}
				if w.Close {
					return
				}
			}
		})
	}
	for range cap(begun) {
		<-begun
	}
	p.signal(syscall.SIGTERM)
	clients.Wait()
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestDrainProxy: a stream in flight is passed on to its end.
func TestDrainProxy(t *testing.T) {
	more := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			return
		}
		fmt.Fprint(w, "one")
		w.(http.Flusher).Flush()
		<-more
		fmt.Fprint(w, "two")
	}))
	defer upstream.Close()
	p := start(t, "proxy", "--upstream", upstream.URL, "--limit", "1000/s", "--listen", "127.0.0.1:0", "--drain-notice", "1ms")
	w, err := http.Get(p.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 3)
	if _, err := io.ReadFull(w.Body, first); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	until(t, func() string {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err == nil {
			return "still listening: " + fmt.Sprint(c.Close())
		}
		return ""
	})
	close(more)
	rest, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil || string(rest) != "two" {
		t.Errorf("%q %v", rest, err)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestRedis: a daemon on Redis says where decisions come from, goes on without
// it as each limit states, and comes back by itself.
func TestRedis(t *testing.T) {
	server := testredis.Start(t)
	p := start(t, "serve", "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	ask := func(limit string, texts ...string) {
		t.Helper()
		until(t, func() string {
			w, err := http.Post(p.url+"/v1/take", "application/json", strings.NewReader(`{"key":"k","limit":"`+limit+`"}`))
			if err != nil {
				return err.Error()
			}
			return answered(w, texts)
		})
	}
	ask("5/h", "200", `"source":"redis"`, `"remaining":4`)
	p.becomes("/readyz", "200", `{"status":"ready","store":"redis"}`)
	server.Kill()
	p.becomes("/readyz", "200", `"status":"degraded","store":"redis","cause":"`)
	ask("5/h", "200", `"source":"local"`)
	ask("5/h on_store_failure=closed", "503", `"reason":"failed_closed"`)
	ask("5/h on_store_failure=open", "200", `"reason":"failed_open"`)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	p.becomes("/readyz", "200", `{"status":"ready","store":"redis"}`)
	ask("5/h", `"source":"redis"`)
}

// TestDemoLoop runs the loop of curls that the demo prints, as it is printed.
func TestDemoLoop(t *testing.T) {
	demo := exec.Command("weir", "demo", "--json", "--for", "20s")
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("it prints nothing")
	}
	var opened struct{ Try, Proxy, API, Policy string }
	if err := json.Unmarshal(lines.Bytes(), &opened); err != nil {
		t.Fatal(err)
	}
	loop, err := exec.Command("sh", "-c", opened.Try).CombinedOutput()
	if err != nil || strings.TrimSpace(string(loop)) != "200 200 200 200 200 429 429" {
		t.Errorf("%v\n%s\n%s", err, opened.Try, loop)
	}
	// Edit the policy as the demo says.
	edit := exec.Command("sed", "-i", "s|5/min|8/min|", opened.Policy)
	if text, err := edit.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, text)
	}
	if !lines.Scan() || lines.Text() != `{"event":"reloaded"}` {
		t.Errorf("no reload: %s", lines.Text())
	}
	loop, err = exec.Command("sh", "-c", opened.Try).CombinedOutput()
	if err != nil || strings.TrimSpace(string(loop)) != "200 200 200 429 429 429 429" {
		t.Errorf("after the edit: %v %s", err, loop)
	}
	if err := demo.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() {
		t.Fatal("no totals")
	}
	var totals struct {
		Event   string
		Callers map[string]struct{ Sent, Admitted, Denied, Failed int }
	}
	if err := json.Unmarshal(lines.Bytes(), &totals); err != nil || totals.Event != "totals" || len(totals.Callers) != 3 {
		t.Fatalf("%s %v", lines.Text(), err)
	}
	for name, c := range totals.Callers {
		wrong := map[string]bool{"calm": c.Denied > 0, "bursty": c.Denied == 0, "abuser": c.Admitted > 8}
		if c.Sent != c.Admitted+c.Denied || c.Failed != 0 || wrong[name] {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if err := demo.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDemoTakesFreePorts: two demos run side by side.
func TestDemoTakesFreePorts(t *testing.T) {
	var outs [2]bytes.Buffer
	var demos [2]*exec.Cmd
	for i := range demos {
		demos[i] = exec.Command("weir", "demo", "--for", "1s")
		demos[i].Stdout = &outs[i]
		if err := demos[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range demos {
		if err := demos[i].Wait(); err != nil {
			t.Error(err)
		}
		if text := outs[i].String(); !strings.Contains(text, "requests in all:") || !strings.Contains(text, "It prints 200 200 200 200 200 429 429:") {
			t.Errorf("%s", text)
		}
	}
}
