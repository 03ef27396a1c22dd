package proxy

import (
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

	"github.com/dunglas/httpsfv"

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
	more    []string       // further upstreams
	policy  *policy.Policy // in place of limit
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
	return compiled(t, limit, false)
}

// compiled may refuse paths that can be read in two ways.
func compiled(t *testing.T, limit string, reject bool) *policy.Policy {
	t.Helper()
	parsed, err := weir.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	rule := policy.Rule{Name: "default", Key: []identity.Part{ip}, Limit: parsed}
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{rule}, RejectAmbiguous: reject})
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
	if s.policy == nil {
		s.policy = perIP(t, s.limit)
	}
	o.Gate, o.Limiter = gate.New(l, resolver, s.policy), l
	o.Format = func() *headers.Format { return format }
	o.Identity = func() []string { return []string{"X-User"} }
	for _, s := range append([]string{upstream}, s.more...) {
		to, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		o.Upstreams = append(o.Upstreams, to)
	}
	if err := CheckUpstreams(o.Upstreams); err != nil {
		t.Fatal(err)
	}
	door := New(o).(*proxy)
	front := httptest.NewUnstartedServer(door)
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
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
	for name, want := range map[string]string{"RateLimit-Policy": `"default";q=2;w=3600`, "RateLimit": `"default";r=0;t=` + w.Header.Get("Retry-After")} {
		list, err := httpsfv.UnmarshalList(w.Header.Values(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := httpsfv.Marshal(list); err != nil || text != want {
			t.Errorf("%s is %q to a library of structured fields, not %q (%v)", name, text, want, err)
		}
	}
}

// TestAmbiguousPaths: a path that can be read in two ways is charged under both,
// and does not pass at all where the policy says so.
func TestAmbiguousPaths(t *testing.T) {
	limit, err := weir.ParseLimit("1/h")
	if err != nil {
		t.Fatal(err)
	}
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	login := policy.Rule{Name: "login", Match: policy.Conditions{Paths: []string{"/login"}}, Key: []identity.Part{ip}, Limit: limit}
	for _, reject := range []bool{false, true} {
		p, err := policy.Compile(policy.Options{Rules: []policy.Rule{login}, RejectAmbiguous: reject})
		if err != nil {
			t.Fatal(err)
		}
		reached := 0
		b := newBench(t, settings{policy: p}, func(http.ResponseWriter, *http.Request) { reached++ })
		for i, path := range []string{"/x/%2e%2e/login", "/x%2F../login", "/login;v=1", `/a\..\login`} {
			want := map[bool]int{true: 200, false: 429}[i == 0] // the first can be read in one way alone
			if reject && i > 0 {
				want = 400
			}
			_, reader := raw(t, b, "GET "+path+" HTTP/1.1", "Host: h", "Connection: close")
			if w, err := http.ReadResponse(reader, nil); err != nil || w.StatusCode != want {
				t.Errorf("%s, refused if ambiguous: %v: %v, not %d (%v)", path, reject, w.StatusCode, want, err)
			}
		}
		if reached != 1 {
			t.Errorf("the upstream was reached %d times", reached)
		}
	}
}

func TestClaims(t *testing.T) {
	forged := []string{
		"X-Forwarded-For", "192.0.2.9", "X-Forwarded-For", "192.0.2.10", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https",
		"Forwarded", "for=192.0.2.9", "X-Real-IP", "192.0.2.9", "CF-Connecting-IP", "192.0.2.9", "True-Client-IP", "192.0.2.9", "X-User", "root",
	}
	var siblings []string
	for _, name := range []string{
		"X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-By", "X-Forwarded-Whatever", "X-Original-Url", "X-Original-Forwarded-For",
		"X-Rewrite-Url", "X-Client-Ip", "X-Cluster-Client-Ip", "Fastly-Client-Ip", "Cf-Connecting-Ipv6", "X-Envoy-External-Address",
	} {
		siblings = append(siblings, name)
		forged = append(forged, name, "forged")
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
		for _, name := range siblings {
			if passed := got[name] != nil; passed != (c.trusted != "") {
				t.Errorf("trusted %q: %s passes: %v", c.trusted, name, passed)
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
