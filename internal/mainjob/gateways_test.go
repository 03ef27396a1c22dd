package mainjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// The recipes in examples/, the very files, before real gateways. Only their
// addresses are replaced: each recipe listens on 127.0.0.1:8000, asks Weir at
// 127.0.0.1:8080 and passes on to 127.0.0.1:3000. While Weir is there, they wait
// for it longer than they say; how long matters when it is not.

// recipe is a gateway and its files.
type recipe struct {
	name         string
	open, closed string   // files under examples
	beside       []string // files that stand beside them
	// run starts the gateway with the file, in a directory of its own.
	run func(t *testing.T, addr, dir, file string)
	// unasked is what the closed recipe answers while Weir cannot be asked.
	unasked int
	// holds says that a refusal is answered when the body has come, and not before.
	holds bool
}

var recipes = []recipe{
	{name: "nginx", open: "nginx/open.conf", closed: "nginx/closed.conf", run: runNginx, unasked: 503},
	{name: "haproxy", open: "haproxy/open.cfg", closed: "haproxy/closed.cfg", beside: []string{"haproxy/weir.lua"}, run: runHAProxy, unasked: 503},
	{name: "caddy", open: "caddy/open.Caddyfile", closed: "caddy/closed.Caddyfile", run: runCaddy, unasked: 502, holds: true},
}

func runNginx(t *testing.T, addr, dir, file string) {
	text := fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr warn;
events { worker_connections 512; }
http {
  access_log off;
  client_max_body_size 8m;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  include %[1]s/%[2]s;
}
`, dir, file)
	main := filepath.Join(dir, "main.conf")
	if err := os.WriteFile(main, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, addr, findNginx(), "-p", dir, "-c", main, "-e", "stderr")
}

func runHAProxy(t *testing.T, addr, dir, file string) {
	start(t, addr, "haproxy", "-db", "-C", dir, "-f", file)
}

func runCaddy(t *testing.T, addr, dir, file string) {
	t.Setenv("XDG_CONFIG_HOME", dir) // where it keeps the last configuration
	t.Setenv("XDG_DATA_HOME", dir)
	start(t, addr, "caddy", "run", "--adapter", "caddyfile", "--config", filepath.Join(dir, file))
}

// fronted is a service behind a gateway that asks Weir.
type fronted struct {
	recipe   *recipe
	url      string
	weir     *process
	weirAddr string
	app      *httptest.Server
	reached  atomic.Int64 // requests that the service has seen
	body     atomic.Int64 // bytes of the last one's body
	uri      atomic.Value
}

// front starts the service, Weir, and the gateway with a recipe that is patient:
// what is slow on a busy machine must not count as no answer.
func front(t *testing.T, r *recipe, file string) *fronted {
	t.Helper()
	f := &fronted{recipe: r}
	f.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		f.body.Store(n)
		f.uri.Store(r.RequestURI)
		f.reached.Add(1)
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintln(w, "served")
	}))
	t.Cleanup(f.app.Close)
	policy, err := os.ReadFile("../../examples/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Nothing comes back while the test runs, however long it takes.
	rules := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(rules, bytes.ReplaceAll(policy, []byte("/min"), []byte("/hour")), 0o600); err != nil {
		t.Fatal(err)
	}
	// Nobody is at the store: rules answer from local memory, and the closed one
	// not at all.
	f.weirAddr = freeAddress(t)
	f.weir = start(t, f.weirAddr, weir, "serve", "-c", rules, "--store", "redis://"+freeAddress(t)+"/0",
		"--http", f.weirAddr, "--admin", "off", "--drain-notice", "0s")
	f.gateway(t, file, patient)
	return f
}

// patient are the recipes' times to wait for Weir, and longer ones.
var patient = []string{"100ms", "10s", "200ms", "20s"}

// gateway starts the gateway anew, elsewhere, with what the file says but for
// addresses and what is to be replaced.
func (f *fronted) gateway(t *testing.T, file string, replaced []string) {
	t.Helper()
	addr, dir := freeAddress(t), t.TempDir()
	here := strings.NewReplacer(append([]string{"127.0.0.1:8000", addr, "127.0.0.1:8080", f.weirAddr,
		"127.0.0.1:3000", f.app.Listener.Addr().String(), "abns@weir", "abns@weir-" + addr}, replaced...)...)
	for _, name := range append(f.recipe.beside, file) {
		text, err := os.ReadFile(filepath.Join("../../examples", name))
		if err != nil {
			t.Fatal(err)
		}
		if name == file {
			for _, old := range []string{"127.0.0.1:8000", "127.0.0.1:8080", "127.0.0.1:3000", "100ms", "200ms"} {
				if !bytes.Contains(text, []byte(old)) {
					t.Fatalf("%s has no %s to replace", name, old)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(here.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.recipe.run(t, addr, dir, filepath.Base(file))
	f.url = "http://" + addr
}

// ask sends a request from a loopback address of its own, with header as name,
// value, name, value. Redirects and connections are not kept.
func (f *fronted) ask(t *testing.T, from, method, path string, body []byte, header ...string) (*http.Response, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var reader io.Reader = bytes.NewReader(body)
	if len(body) > 1000 {
		reader = io.MultiReader(reader) // of no known length, so that it is sent in chunks
	}
	r, err := http.NewRequestWithContext(ctx, method, f.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = append(r.Header[header[i]], header[i+1]) // spelled as it stands
	}
	w, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return w, string(text)
}

func TestGateways(t *testing.T) {
	for i := range recipes {
		r := &recipes[i]
		t.Run(r.name+"/open", func(t *testing.T) {
			f := front(t, r, r.open)
			f.admitsAndDenies(t)
			f.manyFields(t)
			f.gateway(t, r.open, nil)
			f.frozen(t, func() {
				if w, text := f.ask(t, "127.0.0.2", "GET", "/api/x", nil); w.StatusCode != 200 || text != "served\n" {
					t.Errorf("while Weir does not answer: %d %q", w.StatusCode, text)
				}
			})
			f.weir.stop(t)
			if w, text := f.ask(t, "127.0.0.2", "POST", "/api/x", []byte("body")); w.StatusCode != 200 || text != "served\n" || f.body.Load() != 4 {
				t.Errorf("without Weir: %d %q", w.StatusCode, text)
			}
			f.app.Close()
			before := f.reached.Load()
			if w, _ := f.ask(t, "127.0.0.2", "POST", "/other", []byte("body")); w.StatusCode < 500 || f.reached.Load() != before {
				t.Errorf("without the service: %d", w.StatusCode)
			}
		})
		t.Run(r.name+"/closed", func(t *testing.T) {
			f := front(t, r, r.closed)
			f.admitsAndDenies(t)
			f.gateway(t, r.closed, nil)
			before := f.reached.Load()
			f.frozen(t, func() {
				if w, text := f.ask(t, "127.0.0.6", "GET", "/api/x", nil); w.StatusCode < 500 || f.reached.Load() != before {
					t.Errorf("while Weir does not answer: %d %q", w.StatusCode, text)
				}
			})
			f.weir.stop(t)
			if w, text := f.ask(t, "127.0.0.6", "GET", "/api/x", nil); w.StatusCode != r.unasked || f.reached.Load() != before {
				t.Errorf("without Weir: %d %q", w.StatusCode, text)
			}
		})
	}
}

// manyFields: no number of fields makes a gateway pass on what it could not ask
// about, or fall over.
func (f *fronted) manyFields(t *testing.T) {
	t.Helper()
	for n := 80; n <= 104; n++ {
		var fields []string
		for i := range n {
			fields = append(fields, fmt.Sprintf("X-Field-%d", i), "x")
		}
		if w, text := f.ask(t, "127.0.0.4", "GET", "/api/x", nil, fields...); n > 90 && w.StatusCode == 200 && w.Header.Get("RateLimit") == "" {
			t.Errorf("%d fields: passed on unasked, %q", n, text)
		}
	}
	if w, _ := f.ask(t, "127.0.0.5", "GET", "/other", nil); w.StatusCode != 200 {
		t.Errorf("after many fields: %d", w.StatusCode)
	}
}

// frozen does something while Weir accepts connections and answers none.
func (f *fronted) frozen(t *testing.T, do func()) {
	t.Helper()
	if err := f.weir.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.weir.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	f.weir.await(t, "has stopped in all its threads", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", f.weir.cmd.Process.Pid))
		if err != nil || len(threads) == 0 {
			t.Fatal("no threads", err)
		}
		return !slices.ContainsFunc(threads, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && !bytes.Contains(text, []byte(") T "))
		})
	})
	do()
}

// admitsAndDenies holds a recipe against what every recipe does while Weir is
// there.
func (f *fronted) admitsAndDenies(t *testing.T) {
	const client, tenant, strict = "127.0.0.2", "127.0.0.3", "127.0.0.4"
	for left := int64(2); left >= 0; left-- {
		w, text := f.ask(t, client, "GET", "/api/x?q=%2F", nil)
		if w.StatusCode != 200 || text != "served\n" || f.uri.Load() != "/api/x?q=%2F" {
			t.Fatalf("%d %q, and the service saw %s", w.StatusCode, text, f.uri.Load())
		}
		checkFields(t, w.Header, left)
	}
	seen := f.reached.Load()
	f.denied(t, client, "GET", "/api/x")
	f.denied(t, client, "POST", "/api/x")
	for _, forged := range forgeries {
		f.denied(t, client, "GET", "/api/x", forged...)
	}
	if w, _ := f.ask(t, client, "POST", "/api/x", make([]byte, 2000)); w.StatusCode != 429 {
		t.Errorf("a body in chunks: %d", w.StatusCode)
	}
	f.sending(t, client)
	f.odd(t, client)
	f.keys(t, tenant)
	f.strict(t, strict)
	if n := f.reached.Load(); n != seen+2 { // two of the tenant's were admitted
		t.Errorf("%d requests passed that were not admitted", n-seen-2)
	}
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	if w, text := f.ask(t, "127.0.0.5", "POST", "/api/x", body); w.StatusCode != 200 || f.body.Load() != int64(len(body)) {
		t.Errorf("a body: %d %q, %d bytes arrived", w.StatusCode, text, f.body.Load())
	}
	if w, _ := f.ask(t, "127.0.0.5", "GET", "/free", nil); w.StatusCode != 200 || w.Header.Get("RateLimit") != "" {
		t.Errorf("a path without limits: %d %v", w.StatusCode, w.Header)
	}
	before := f.reached.Load()
	if w, _ := f.ask(t, "127.0.0.5", "POST", "/abort", nil); w.StatusCode < 500 || f.reached.Load() != before+1 {
		t.Errorf("a failure of the service: %d, and it was asked %d times", w.StatusCode, f.reached.Load()-before)
	}
	// A page of another site, as a browser says it: the gateway's client, not a
	// browser on Weir's machine.
	if w, _ := f.ask(t, "127.0.0.5", "GET", "/api/x", nil, "Sec-Fetch-Site", "cross-site", "Origin", "https://other.example"); w.StatusCode != 200 {
		t.Errorf("a page of another site: %d", w.StatusCode)
	}
}

// denied asks for what is refused, and holds the refusal against what clients
// rely on.
func (f *fronted) denied(t *testing.T, from, method, path string, header ...string) {
	t.Helper()
	w, text := f.ask(t, from, method, path, nil, header...)
	if w.StatusCode != 429 || !strings.Contains(text, "quota-exceeded") || w.Header.Get("Content-Type") != "application/problem+json" || w.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s %s %q: %d %v %q", method, path, header, w.StatusCode, w.Header, text)
		return
	}
	if wait, err := strconv.Atoi(w.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 5400 {
		t.Errorf("Retry-After is %q", w.Header.Get("Retry-After"))
	}
	checkFields(t, w.Header, 0)
}

// checkFields reads RateLimit and RateLimit-Policy as a client with a library for
// structured fields does.
func checkFields(t *testing.T, h http.Header, left int64) {
	t.Helper()
	for name, want := range map[string]int64{"RateLimit": left, "RateLimit-Policy": 0} {
		list, err := httpsfv.UnmarshalList(h.Values(name))
		if err != nil || len(list) != 1 {
			t.Errorf("%s %q: %v", name, h.Values(name), err)
			continue
		}
		item, ok := list[0].(httpsfv.Item)
		if !ok {
			t.Errorf("%s %q holds no item", name, h.Values(name))
			continue
		}
		if r, given := item.Params.Get("r"); name == "RateLimit" && (!given || r != want) {
			t.Errorf("%s %q, want r=%d", name, h.Values(name), want)
		}
		if params := slices.Sorted(slices.Values(item.Params.Names())); name == "RateLimit-Policy" && !slices.Equal(params, []string{"q", "w"}) {
			t.Errorf("%s %q", name, h.Values(name))
		}
	}
}

// strict asks under a closed rule whose store is away: a refusal, never a pass,
// whatever the recipe does without Weir.
func (f *fronted) strict(t *testing.T, from string) {
	t.Helper()
	w, text := f.ask(t, from, "POST", "/login", nil)
	if w.StatusCode != 429 && w.StatusCode != 503 || w.Header.Get("Retry-After") == "" || !strings.Contains(text, "temporary-reduced-capacity") {
		t.Errorf("a closed rule without its store: %d %v %q", w.StatusCode, w.Header, text)
	}
}
