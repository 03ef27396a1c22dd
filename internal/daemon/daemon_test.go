package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy/policyfile"
)

const patience = 30 * time.Second

// running is a daemon in this process.
type running struct {
	t       *testing.T
	address string // of the http door
	log     lockedBuffer
	reload  chan os.Signal
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func begin(t *testing.T, c Config) *running {
	t.Helper()
	d := &running{t: t, reload: make(chan os.Signal)}
	c.Log = slog.New(slog.NewTextHandler(&d.log, nil))
	c.Reload, c.Grace = d.reload, patience
	opened := make(chan string, 1)
	c.Beside = func(ctx context.Context, addresses map[string]net.Addr) error {
		opened <- addresses["http"].String()
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	select {
	case d.address = <-opened:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return d
}

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

const takeBody = `{"key":"k","limit":"100/s"}`

// take posts to a door and returns the status, or 0 and the error.
func take(client *http.Client, base, token string) (int, error) {
	r, err := http.NewRequest("POST", base+"/v1/take", strings.NewReader(takeBody))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, w.Body)
	return w.StatusCode, errors.Join(err, w.Body.Close())
}

func TestToken(t *testing.T) {
	d := begin(t, Config{Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0", Auth: "token", Token: "s3cret"})}})
	for token, want := range map[string]int{"": 401, "other": 401, "s3cret": 200} {
		if status, err := take(http.DefaultClient, "http://"+d.address, token); status != want || err != nil {
			t.Errorf("token %q: %d %v", token, status, err)
		}
	}
	w, err := http.Get("http://" + d.address + "/readyz")
	if err != nil || w.StatusCode != 200 || w.Body.Close() != nil {
		t.Errorf("%v %v", w, err)
	}
	if strings.Contains(d.log.String(), "s3cret") {
		t.Error("the log holds the token")
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	busy := Listen{Address: "unix:" + path}
	if _, err := busy.open("http", maxConnections, nil, nil); err == nil || !strings.Contains(err.Error(), "somebody answers") {
		t.Errorf("a socket in use: %v", err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	begin(t, Config{Doors: []Door{HTTP(busy)}})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", info, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	if status, err := take(client, "http://any.name", ""); status != 200 || err != nil {
		t.Errorf("%d %v", status, err)
	}
}

func TestLoopbackNames(t *testing.T) {
	d := begin(t, Config{Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	for host, want := range map[string]int{d.address: 200, "localhost": 200, "weir.example": 403} {
		r, err := http.NewRequest("POST", "http://"+d.address+"/v1/take", strings.NewReader(takeBody))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		w, err := http.DefaultClient.Do(r)
		if err != nil || w.StatusCode != want || w.Body.Close() != nil {
			t.Errorf("%s: %v %v", host, w, err)
		}
	}
}

// TestFileChange: a changed file is put in force without being asked, what was
// used stays used, and readyz tells of a file that could not be.
func TestFileChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(text string) {
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(limit string) string {
		return "limits:\n  - {name: a, key: [ip], limit: '" + limit + " algorithm=sliding_log'}\n"
	}
	write(rule("5/h"))
	policy, err := policyfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d := begin(t, Config{File: policy, Watch: true, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	check := func(ip string) string {
		w, err := http.Post("http://"+d.address+"/v1/check", "application/json", strings.NewReader(`{"path":"/","ip":"`+ip+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		if err := errors.Join(err, w.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	check("192.0.2.1")
	write(rule("9/h"))
	until(t, func() string {
		if body := check("192.0.2.200"); !strings.Contains(body, `"limit":9`) {
			return body
		}
		return ""
	})
	if body := check("192.0.2.1"); !strings.Contains(body, `"limit":9,"remaining":7,`) {
		t.Errorf("the balance was not kept: %s", body)
	}
	write("limits: [\n")
	until(t, func() string {
		w, err := http.Get("http://" + d.address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		if err := errors.Join(err, w.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if w.StatusCode != 200 || !strings.Contains(string(body), `"status":"degraded"`) {
			return string(body)
		}
		return ""
	})
	if body := check("192.0.2.1"); !strings.Contains(body, `"limit":9,"remaining":6,`) {
		t.Errorf("the broken file is in force: %s", body)
	}
}

// decided counts what it hears of.
type decided struct {
	mu    sync.Mutex
	bills int
}

func (d *decided) Observe(context.Context, weir.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bills++
}

// TestObservers: every observer hears of every decision, and of no readyz.
func TestObservers(t *testing.T) {
	var one, two decided
	d := begin(t, Config{Observers: []weir.Observer{&one, &two}, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	for range 3 {
		if status, err := take(http.DefaultClient, "http://"+d.address, ""); status != 200 || err != nil {
			t.Fatalf("%d %v", status, err)
		}
	}
	w, err := http.Get("http://" + d.address + "/readyz")
	if err != nil || w.Body.Close() != nil {
		t.Fatal(err)
	}
	for _, o := range []*decided{&one, &two} {
		o.mu.Lock()
		if o.bills != 3 {
			t.Errorf("%d bills", o.bills)
		}
		o.mu.Unlock()
	}
}

// TestCap: over the cap connections are closed at once, and room comes back.
func TestCap(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &capped{Listener: inner, room: make(chan struct{}, 1)}
	served := make(chan net.Conn, 3)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(served)
				return
			}
			served <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := dial()
	defer first.Close()
	kept := <-served
	second := dial()
	defer second.Close()
	if _, err := bufio.NewReader(second).ReadByte(); err == nil {
		t.Error("the second was served")
	}
	if err := errors.Join(kept.Close(), kept.Close()); err == nil {
		t.Error("closing twice gave no error")
	}
	third := dial()
	defer third.Close()
	select {
	case c := <-served:
		if c == nil || c.Close() != nil {
			t.Error("the third was served badly")
		}
	case <-time.After(patience):
		t.Fatal("the third was not served")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, open := <-served; open {
		t.Error("a connection too many")
	}
}

// TestPanicStaysInItsRequest: a handler that panics fails its own request, and
// the log says where.
func TestPanicStaysInItsRequest(t *testing.T) {
	bad := Door{Name: "http", Listen: Listen{Address: "127.0.0.1:0"}, Open: func(c *Core, name string, l *Listen) (Server, error) {
		return newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				panic("a fault of ours")
			}
		}), apiTimeouts, c.log, name, l)
	}}
	d := begin(t, Config{Doors: []Door{bad}})
	if w, err := http.Get("http://" + d.address + "/bad"); err == nil {
		t.Errorf("%d %v", w.StatusCode, w.Body.Close())
	}
	if w, err := http.Get("http://" + d.address + "/good"); err != nil || w.StatusCode != 200 || w.Body.Close() != nil {
		t.Errorf("%v %v", w, err)
	}
	if !strings.Contains(d.log.String(), "a fault of ours") {
		t.Errorf("the log says nothing: %s", d.log.String())
	}
}

// TestDistrustShows: a daemon behind a proxy that nobody named says so in its log
// and in readyz, and stays ready.
func TestDistrustShows(t *testing.T) {
	policy, err := policyfile.Parse("weir.yaml", []byte("limits: [{name: r, key: [ip], limit: 5/h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := begin(t, Config{File: policy, Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	ready := func() string {
		w, err := http.Get("http://" + d.address + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		if err := errors.Join(err, w.Body.Close()); err != nil || w.StatusCode != http.StatusOK {
			t.Fatalf("%d %v", w.StatusCode, err)
		}
		return strings.TrimSpace(string(body))
	}
	if got := ready(); got != `{"status":"ready","store":"memory"}` {
		t.Errorf("before: %s", got)
	}
	for range 3 {
		w, err := http.Post("http://"+d.address+"/v1/check", "application/json",
			strings.NewReader(`{"path":"/","ip":"192.0.2.1","headers":{"X-Forwarded-For":["198.51.100.7"]}}`))
		if err != nil || w.Body.Close() != nil {
			t.Fatal(err)
		}
	}
	const want = `{"status":"ready","store":"memory","client_ip":"X-Forwarded-For from 192.0.2.1 is ignored: the peer is not in client_ip.trusted_proxies; 3 requests so far"}`
	if got := ready(); got != want {
		t.Errorf("after: %s", got)
	}
	if n := strings.Count(d.log.String(), "a forwarding header from a peer that is not trusted"); n != 1 {
		t.Errorf("%d lines in the log: %s", n, d.log.String())
	}
}
