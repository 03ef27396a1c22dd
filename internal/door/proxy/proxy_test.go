package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// bench is a proxy in front of an upstream, both real servers.
type bench struct {
	url  string
	door *proxy
}

type settings struct {
	limit   string
	trusted string // CIDR of trusted proxies
	options Options
}

func newBench(t *testing.T, s settings, upstream http.HandlerFunc) *bench {
	t.Helper()
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	return newBenchAt(t, s, up.URL)
}

// perIP is a policy of one limit, counted by address.
func perIP(t *testing.T, limit string) *policy.Policy {
	t.Helper()
	parsed, err := weir.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{{Name: "default", Key: []identity.Part{ip}, Limit: parsed}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newBenchAt(t *testing.T, s settings, upstream string) *bench {
	t.Helper()
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.limit == "" {
		s.limit = "unlimited"
	}
	config := identity.Config{}
	if s.trusted != "" {
		config.ClientIP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(s.trusted)}
	}
	resolver, err := identity.NewResolver(config)
	if err != nil {
		t.Fatal(err)
	}
	format, err := headers.New(headers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := s.options
	o.Gate, o.Limiter = gate.New(l, resolver, perIP(t, s.limit)), l
	o.Format = func() *headers.Format { return format }
	o.Identity = func() []string { return []string{"X-User"} }
	if o.Upstream, err = url.Parse(upstream); err != nil {
		t.Fatal(err)
	}
	door := New(o).(*proxy)
	front := httptest.NewServer(door)
	t.Cleanup(func() { front.Close(); _ = l.Close() })
	return &bench{front.URL, door}
}

func (b *bench) do(t *testing.T, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return w, string(text)
}

func TestDenied(t *testing.T) {
	var reached atomic.Int64
	b := newBench(t, settings{limit: "2/h"}, func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		w.Header().Set("RateLimit-Limit", "999") // the upstream's own must not stand beside ours
		w.Header().Set("X-Upstream", "yes")
		fmt.Fprint(w, r.URL.Path)
	})
	for i := range 2 {
		w, body := b.do(t, "GET", "/healthz", nil) // a path of the API, served by nobody but the upstream
		if w.StatusCode != 200 || body != "/healthz" || w.Header.Get("X-Upstream") != "yes" {
			t.Errorf("%d %s", w.StatusCode, body)
		}
		if got := w.Header.Values("RateLimit-Limit"); len(got) != 1 || got[0] != "2" || w.Header.Get("RateLimit-Remaining") != fmt.Sprint(1-i) {
			t.Errorf("%v", w.Header)
		}
	}
	w, body := b.do(t, "GET", "/healthz", nil)
	if w.StatusCode != 429 || w.Header.Get("Retry-After") == "" || w.Header.Get("Cache-Control") != "no-store" ||
		w.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `"violated-policies":["default"]`) {
		t.Errorf("%d %v %s", w.StatusCode, w.Header, body)
	}
	if n := reached.Load(); n != 2 {
		t.Errorf("the upstream was reached %d times", n)
	}
}

func TestClaims(t *testing.T) {
	forged := []string{
		"X-Forwarded-For", "192.0.2.9", "X-Forwarded-For", "192.0.2.10", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https",
		"Forwarded", "for=192.0.2.9", "X-Real-IP", "192.0.2.9", "CF-Connecting-IP", "192.0.2.9", "True-Client-IP", "192.0.2.9", "X-User", "root",
	}
	for _, c := range []struct {
		trusted string
		want    map[string]string // "" for absent
	}{
		{"", map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "api.example", "X-Forwarded-Proto": "http", "Forwarded": "",
			"X-Real-Ip": "127.0.0.1", "Cf-Connecting-Ip": "", "True-Client-Ip": "", "X-User": "",
		}},
		{"127.0.0.0/8", map[string]string{
			"X-Forwarded-For": "192.0.2.9, 192.0.2.10, 127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "for=192.0.2.9",
			"X-Real-Ip": "192.0.2.9", "Cf-Connecting-Ip": "192.0.2.9", "True-Client-Ip": "192.0.2.9", "X-User": "root",
		}},
	} {
		var got http.Header
		var host string
		b := newBench(t, settings{trusted: c.trusted}, func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host })
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/a%2Fb?q=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "api.example"
		for i := 0; i < len(forged); i += 2 {
			r.Header.Add(forged[i], forged[i+1])
		}
		w, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || w.Body.Close() != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if text := strings.Join(got[name], ", "); text != want {
				t.Errorf("trusted %q: %s is %q, not %q", c.trusted, name, text, want)
			}
		}
		if host != "api.example" {
			t.Errorf("Host is %q", host)
		}
	}
}

// TestConnectionCannotDropClaims: a client may not have our fields removed by
// naming them as hop-by-hop.
func TestConnectionCannotDropClaims(t *testing.T) {
	var got http.Header
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	b.do(t, "GET", "/", nil, "Connection", "X-Forwarded-For, X-Real-Ip, close")
	if got.Get("X-Forwarded-For") != "127.0.0.1" || got.Get("X-Real-Ip") != "127.0.0.1" {
		t.Errorf("%v", got)
	}
}

func TestPathAndQueryPass(t *testing.T) {
	var got string
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	for _, uri := range []string{"/a%2Fb//c/../d?x=%zz&y=1;2", "/%6Cogin", "/a?", "/"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", uri)
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if want := strings.TrimSuffix(uri, "?"); strings.TrimSuffix(got, "?") != want {
			t.Errorf("%s arrived as %s", uri, got)
		}
	}
}

// raw sends a request line by line and returns the connection and its reader.
func raw(t *testing.T, b *bench, lines ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil { // so that a failure is no hang
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func TestWebsocketPasses(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, buffer) // echo
	})
	conn, reader := raw(t, b, "GET /ws HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade")
	w, err := http.ReadResponse(reader, nil)
	if err != nil || w.StatusCode != 101 {
		t.Fatalf("%v %v", w, err)
	}
	message := bytes.Repeat([]byte("\x00\xffecho"), 1000)
	go conn.Write(message)
	echo := make([]byte, len(message))
	if _, err := io.ReadFull(reader, echo); err != nil || !bytes.Equal(echo, message) {
		t.Errorf("%v, equal: %v", err, bytes.Equal(echo, message))
	}
}

func TestOtherUpgradesDoNotPass(t *testing.T) {
	for _, upgrade := range []string{"h2c", "websocket, h2c", "TLS/1.0", "websocket\r\nUpgrade: h2c"} {
		var got http.Header
		b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
		_, reader := raw(t, b, "GET / HTTP/1.1", "Host: h", "Connection: Upgrade, HTTP2-Settings, close", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", "Upgrade: "+upgrade)
		w, err := http.ReadResponse(reader, nil)
		if err != nil || w.StatusCode != 200 {
			t.Fatalf("%s: %v %v", upgrade, w, err)
		}
		if got["Upgrade"] != nil || got["Http2-Settings"] != nil {
			t.Errorf("%s passed: %v", upgrade, got)
		}
	}
}

// TestStreams: what the upstream has written arrives before it writes more.
func TestStreams(t *testing.T) {
	for _, fields := range [][2]string{
		{"Content-Type", "text/event-stream"}, {"Content-Type", "application/octet-stream"}, {"Content-Length", "18"},
	} {
		seen := make(chan struct{})
		b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(fields[0], fields[1])
			fmt.Fprint(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-seen:
				fmt.Fprint(w, "data: 2\n\n")
			case <-r.Context().Done():
			}
		})
		_, reader := raw(t, b, "GET / HTTP/1.1", "Host: h", "Connection: close")
		w, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 9)
		if _, err := io.ReadFull(w.Body, first); err != nil || string(first) != "data: 1\n\n" {
			t.Fatalf("%q %v", first, err)
		}
		close(seen)
		if rest, err := io.ReadAll(w.Body); err != nil || string(rest) != "data: 2\n\n" {
			t.Errorf("%q %v", rest, err)
		}
	}
}

// TestBodyIsNotBuffered: the upstream has the first part of a request's body
// before the client sends the second.
func TestBodyIsNotBuffered(t *testing.T) {
	got := make(chan string)
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) {
		for part := make([]byte, 5); ; {
			if _, err := io.ReadFull(r.Body, part); err != nil {
				close(got)
				return
			}
			got <- string(part)
		}
	})
	body, writer := io.Pipe()
	go func() {
		for _, part := range []string{"first", "again"} {
			if _, err := io.WriteString(writer, part); err != nil {
				return
			}
			if seen := <-got; seen != part {
				t.Errorf("%q arrived for %q", seen, part)
			}
		}
		writer.Close()
	}()
	if w, _ := b.do(t, "POST", "/", body); w.StatusCode != 200 {
		t.Errorf("%d", w.StatusCode)
	}
}

func TestTrailersPass(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "down "+r.Trailer.Get("X-Up"))
	})
	_, reader := raw(t, b, "POST / HTTP/1.1", "Host: h", "Connection: close", "Transfer-Encoding: chunked", "Trailer: X-Up", "",
		"1", "a", "0", "X-Up: up")
	w, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, w.Body); err != nil || w.Trailer.Get("X-Sum") != "down up" {
		t.Errorf("%v %v", w.Trailer, err)
	}
}

// TestContinue: who is denied is told before sending the body, and who is
// admitted is told to go on.
func TestContinue(t *testing.T) {
	b := newBench(t, settings{limit: "1/h"}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	})
	request := []string{"POST / HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 4"}
	conn, reader := raw(t, b, request...)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "body")
	w, err := http.ReadResponse(reader, nil)
	if err != nil || w.StatusCode != 200 {
		t.Fatalf("%v %v", w, err)
	}
	_, reader = raw(t, b, request...)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "429") {
		t.Errorf("%q %v", line, err)
	}
}

func TestUpstreamFailures(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	w, _ := newBenchAt(t, settings{limit: "9/h"}, nobody).do(t, "GET", "/", nil)
	if w.StatusCode != 502 || w.Header.Get("RateLimit-Remaining") != "8" {
		t.Errorf("nobody there: %d %v", w.StatusCode, w.Header)
	}
	release := make(chan struct{})
	defer close(release)
	slow := newBench(t, settings{options: Options{AnswerWithin: time.Millisecond}}, func(http.ResponseWriter, *http.Request) { <-release })
	if w, _ := slow.do(t, "GET", "/", nil); w.StatusCode != 504 {
		t.Errorf("slow: %d", w.StatusCode)
	}
	broken := newBench(t, settings{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(conn, "no HTTP\r\n\r\n")
		conn.Close()
	})
	if w, _ := broken.do(t, "GET", "/", nil); w.StatusCode != 502 {
		t.Errorf("broken: %d", w.StatusCode)
	}
}

func TestNoTunnels(t *testing.T) {
	b := newBench(t, settings{}, func(http.ResponseWriter, *http.Request) { t.Error("reached") })
	_, reader := raw(t, b, "CONNECT evil.example:443 HTTP/1.1", "Host: evil.example:443")
	w, err := http.ReadResponse(reader, nil)
	if err != nil || w.StatusCode != 405 {
		t.Errorf("%v %v", w, err)
	}
}
