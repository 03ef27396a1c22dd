package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// bench is a door that trusts 127.0.0.1, on a clock that stands still.
type bench struct {
	door    http.Handler
	limiter *weir.Limiter
}

type settings struct {
	rules    []policy.Rule
	identity identity.Config
	denied   *headers.Body
	store    weir.Store
	reject   bool // ambiguous paths
}

func newBench(t *testing.T, s settings) *bench {
	t.Helper()
	if s.store == nil {
		s.store = weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return 1_000_000_000_000_000 }})
	}
	l, err := weir.New(weir.Options{Store: s.store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s.identity.ClientIP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	resolver, err := identity.NewResolver(s.identity)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(policy.Options{Rules: s.rules, RejectAmbiguous: s.reject})
	if err != nil {
		t.Fatal(err)
	}
	format, err := headers.New(headers.Options{Denied: s.denied, Random: func(int64) int64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{New(Options{Gate: gate.New(l, resolver, p), Format: func() *headers.Format { return format }}), l}
}

// rule returns a rule that is counted by the given parts.
func rule(t *testing.T, limit string, parts ...string) policy.Rule {
	t.Helper()
	r := policy.Rule{Name: "default"}
	var err error
	if r.Limit, err = weir.ParseLimit(limit); err != nil {
		t.Fatal(err)
	}
	for _, text := range parts {
		part, err := identity.ParsePart(text)
		if err != nil {
			t.Fatal(err)
		}
		r.Key = append(r.Key, part)
	}
	return r
}

const trusted, stranger = "127.0.0.1:40000", "192.0.2.66:40000"

// ask sends a gateway's question, with header as name, value, name, value.
func (b *bench) ask(peer, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, r)
	return w
}

// question returns what a gateway of that name sends of a request.
func question(name, method, target, client string) (path string, header []string) {
	switch name {
	case "nginx", "haproxy":
		return Prefix + name, []string{"X-Original-Method", method, "X-Original-URI", target, "X-Forwarded-For", client}
	case "envoy":
		return Prefix + name + target, []string{"X-Forwarded-For", client}
	}
	return Prefix + name, []string{"X-Forwarded-Method", method, "X-Forwarded-Uri", target, "X-Forwarded-Host", "api.example", "X-Forwarded-For", client}
}

var names = []string{"nginx", "haproxy", "traefik", "caddy", "envoy"}

func TestAdmittedAndDenied(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, settings{rules: []policy.Rule{rule(t, "2/min", "ip")}})
			path, header := question(name, "GET", "/api/x?q=1", "203.0.113.7")
			for i, left := range []string{"1", "0"} {
				w := b.ask(trusted, "GET", path, header...)
				if w.Code != 200 || w.Header().Get("RateLimit-Remaining") != left || w.Header().Get("RateLimit") == "" || w.Body.Len() != 0 || w.Header().Get(StatusField) != "" {
					t.Fatalf("%d: %d %v %s", i, w.Code, w.Header(), w.Body)
				}
			}
			w := b.ask(trusted, "GET", path, header...)
			want := http.StatusTooManyRequests
			if name == "nginx" {
				want = http.StatusForbidden
			}
			if w.Code != want || w.Header().Get(StatusField) != "429" || w.Header().Get("Retry-After") != "30" ||
				w.Header().Get("Cache-Control") != "no-store" || !strings.Contains(w.Body.String(), "quota-exceeded") {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if w := b.ask(trusted, "HEAD", path, header...); w.Code != want || w.Body.Len() != 0 {
				t.Errorf("HEAD: %d %s", w.Code, w.Body)
			}
			path, header = question(name, "GET", "/api/x?q=1", "203.0.113.8")
			if w := b.ask(trusted, "GET", path, header...); w.Code != 200 {
				t.Errorf("another client: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestStrangersChargeNothing: who is not trusted gets a hint, and no balance
// changes.
func TestStrangersChargeNothing(t *testing.T) {
	for _, name := range names {
		b := newBench(t, settings{rules: []policy.Rule{rule(t, "1/h", "ip")}})
		path, header := question(name, "GET", "/", "203.0.113.7")
		for range 3 {
			w := b.ask(stranger, "GET", path, header...)
			if w.Code != 403 || !strings.Contains(w.Body.String(), "client_ip.trusted_proxies") || w.Header().Get("RateLimit") != "" {
				t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
			}
		}
		if w := b.ask(trusted, "GET", path, header...); w.Code != 200 {
			t.Errorf("%s: %d %s: a stranger charged somebody", name, w.Code, w.Body)
		}
	}
}

// TestWhatTheGatewayDidNotSay: a gateway that was set up with a line too few is
// told so, and its client's own word is not taken instead.
func TestWhatTheGatewayDidNotSay(t *testing.T) {
	for _, name := range names {
		b := newBench(t, settings{rules: []policy.Rule{rule(t, "1/h", "all")}})
		path, header := question(name, "GET", "/", "203.0.113.7")
		for i := 0; i < len(header); i += 2 {
			fewer := append(append([]string(nil), header[:i]...), header[i+2:]...)
			if w := b.ask(trusted, "GET", path, fewer...); w.Code != 403 || !strings.Contains(strings.ToLower(w.Body.String()), strings.ToLower(header[i])) {
				t.Errorf("%s without %s: %d %s", name, header[i], w.Code, w.Body)
			}
			if header[i] == "X-Forwarded-For" {
				continue // a list: its last entry is the gateway's
			}
			twice := append([]string{header[i], header[i+1]}, header...)
			if w := b.ask(trusted, "GET", path, twice...); w.Code != 403 || !strings.Contains(w.Body.String(), "more than once") {
				t.Errorf("%s with %s twice: %d %s", name, header[i], w.Code, w.Body)
			}
		}
		if w := b.ask(trusted, "GET", path, header...); w.Code != 200 {
			t.Errorf("%s: something was charged: %d", name, w.Code)
		}
	}
}

// TestForged: names that another gateway would set are the client's invention
// here, and change neither whose request it is nor which.
func TestForged(t *testing.T) {
	forged := []string{
		"X-Original-URI", "X-Original-Method", "X-Original-Url", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host",
		"X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Forwarded", "X-User", "X-HTTP-Method-Override", "X-Rewrite-Url",
	}
	values := map[string]string{"X-Original-Method": "PUT", "X-Forwarded-Method": "PUT", "X-Http-Method-Override": "PUT", "Forwarded": "for=198.51.100.9"}
	for _, name := range names {
		for _, configured := range []string{"X-Forwarded-For", "CF-Connecting-IP", "Forwarded"} {
			c := identity.Config{User: identity.User{Header: "X-User"}}
			c.ClientIP.Header = configured
			b := newBench(t, settings{identity: c, rules: []policy.Rule{rule(t, "1/h", "ip", "user", "method", "path")}})
			path, header := question(name, "GET", "/api", "203.0.113.7")
			if w := b.ask(trusted, "GET", path, header...); w.Code != 200 {
				t.Fatalf("%s: %d %s", name, w.Code, w.Body)
			}
			for _, f := range forged {
				if contains(header, f) || name == "nginx" && f == "X-Real-IP" {
					continue // the gateway overwrites it
				}
				value := values[http.CanonicalHeaderKey(f)]
				if value == "" {
					value = "198.51.100.9"
				}
				if w := b.ask(trusted, "GET", path, append([]string{f, value}, header...)...); w.Header().Get(StatusField) != "429" {
					t.Errorf("%s, client by %s: %s gained a balance: %d %s", name, configured, f, w.Code, w.Body)
				}
			}
			more := append([]string{"X-Forwarded-For", "198.51.100.9"}, header...) // before the gateway's own
			if w := b.ask(trusted, "GET", path, more...); w.Header().Get(StatusField) != "429" {
				t.Errorf("%s: a longer X-Forwarded-For gained a balance: %d", name, w.Code)
			}
		}
	}
}

func contains(header []string, name string) bool {
	for i := 0; i < len(header); i += 2 {
		if http.CanonicalHeaderKey(header[i]) == http.CanonicalHeaderKey(name) {
			return true
		}
	}
	return false
}

// TestRequestIsRead: method, path, query, host and key reach the policy as the
// client sent them.
func TestRequestIsRead(t *testing.T) {
	config := identity.Config{APIKeys: identity.APIKeys{Header: "X-API-Key", Keys: map[string]identity.KeyRecord{"k": {Tenant: "acme"}}}}
	for _, name := range names {
		for _, part := range []string{"method", "path", "query:q", "host", "tenant"} {
			b := newBench(t, settings{identity: config, rules: []policy.Rule{rule(t, "1/h", part)}})
			ask := func(method, target, host, key string) string {
				path, header := question(name, method, target, "203.0.113.7")
				asked := "GET"
				if name == "envoy" {
					asked = method
				}
				for i := 0; i < len(header); i += 2 {
					if header[i] == "X-Forwarded-Host" {
						header[i+1] = host
					}
				}
				r := httptest.NewRequest(asked, path, nil)
				r.RemoteAddr, r.Host = trusted, host
				for i := 0; i < len(header); i += 2 {
					r.Header.Add(header[i], header[i+1])
				}
				r.Header.Set("X-API-Key", key)
				w := httptest.NewRecorder()
				b.door.ServeHTTP(w, r)
				return w.Header().Get("RateLimit-Remaining") + w.Header().Get(StatusField)
			}
			if got := ask("GET", "/a?q=1", "a.example", "k"); got != "0" {
				t.Fatalf("%s: %s: %s", name, part, got)
			}
			if got := ask("GET", "/%61/?q=1", "a.example:443", "k"); got != "0429" {
				t.Errorf("%s: %s: the same request in another spelling: %s", name, part, got)
			}
			other := map[string][4]string{
				"method": {"POST", "/a?q=1", "a.example", "k"}, "path": {"GET", "/b?q=1", "a.example", "k"},
				"query:q": {"GET", "/a?q=2", "a.example", "k"}, "host": {"GET", "/a?q=1", "b.example", "k"}, "tenant": {"GET", "/a?q=1", "a.example", "unknown"},
			}[part]
			if got := ask(other[0], other[1], other[2], other[3]); got != "0" {
				t.Errorf("%s: another %s: %s", name, part, got)
			}
		}
	}
}

// gone is a store that cannot be reached.
type gone struct{ weir.Store }

func (gone) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: true, Err: errors.New("gone")}
	}
}

// TestClosedIsNeverAPass: a closed rule without its store is a refusal that no
// gateway takes for a failure of ours, and so is everything else that is no
// admission.
func TestClosedIsNeverAPass(t *testing.T) {
	for _, name := range names {
		memory := weir.NewMemory(weir.MemoryOptions{})
		b := newBench(t, settings{store: gone{memory}, rules: []policy.Rule{rule(t, "9/h on_store_failure=closed", "ip")}})
		path, header := question(name, "GET", "/", "203.0.113.7")
		w := b.ask(trusted, "GET", path, header...)
		if w.Code != 403 && w.Code != 429 || w.Header().Get(StatusField) != "503" || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
		if err := b.limiter.Close(); err != nil {
			t.Fatal(err)
		}
		if w := b.ask(trusted, "GET", path, header...); w.Code != 403 && w.Code != 429 || w.Header().Get(StatusField) != "503" {
			t.Errorf("%s, at the end: %d %v", name, w.Code, w.Header())
		}
		for _, status := range []int{503, 509, 403, 420} {
			own := newBench(t, settings{denied: &headers.Body{Status: status, ContentType: "text/plain", Content: []byte("later")}, rules: []policy.Rule{rule(t, "0/h", "ip")}})
			want := http.StatusTooManyRequests
			switch {
			case name == "nginx":
				want = http.StatusForbidden
			case status < 500:
				want = status
			}
			if w := own.ask(trusted, "GET", path, header...); w.Code != want || w.Header().Get(StatusField) != "429" || w.Body.String() != "later" {
				t.Errorf("%s, a refusal of %d: %d %v %s", name, status, w.Code, w.Header(), w.Body)
			}
		}
		strict := newBench(t, settings{reject: true})
		path, header = question(name, "GET", "/a%2Fb", "203.0.113.7")
		if w := strict.ask(trusted, "GET", path, header...); w.Code != 403 {
			t.Errorf("%s, an ambiguous path: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestNobodyWaits: a queue admits here only what need not wait in it.
func TestNobodyWaits(t *testing.T) {
	b := newBench(t, settings{rules: []policy.Rule{rule(t, "1/min algorithm=leaky_bucket burst=5", "ip")}})
	path, header := question("caddy", "GET", "/", "203.0.113.7")
	if w := b.ask(trusted, "GET", path, header...); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := b.ask(trusted, "GET", path, header...); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestOtherPaths(t *testing.T) {
	b := newBench(t, settings{})
	for _, path := range []string{"/v1/auth/", "/v1/auth/apache", "/v1/auth/nginx/x", "/v1/authenvoy", "/v1/auth/Nginx"} {
		if w := b.ask(trusted, "GET", path, "X-Forwarded-For", "203.0.113.7"); w.Code != 404 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for _, target := range []string{"x", "http://h/", ""} {
		if w := b.ask(trusted, "GET", "/v1/auth/nginx", "X-Original-URI", target, "X-Original-Method", "GET", "X-Forwarded-For", "203.0.113.7"); w.Code != 403 {
			t.Errorf("%q: %d", target, w.Code)
		}
	}
	if w := b.ask(trusted, "GET", "/v1/auth/envoy?q=1", "X-Forwarded-For", "203.0.113.7"); w.Code != 403 {
		t.Errorf("no path: %d", w.Code)
	}
}
