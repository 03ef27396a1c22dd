package httplimit_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

func limiter(t testing.TB, o weir.Options) *weir.Limiter {
	t.Helper()
	l, err := weir.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func limit(t testing.TB, s string) weir.Limit {
	t.Helper()
	l, err := weir.ParseLimit(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func build(t testing.TB, l *weir.Limiter, o httplimit.Options) func(http.Handler) http.Handler {
	t.Helper()
	wrap, err := httplimit.New(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return wrap
}

// served counts the requests that reach it.
type served int

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	*s++
	if _, err := w.Write([]byte("served")); err != nil {
		panic(err)
	}
}

// get sends a request from the peer, with headers as name, value pairs.
func get(h http.Handler, peer string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func codes(t *testing.T, want ...int) func(w *httptest.ResponseRecorder) {
	t.Helper()
	n := 0
	return func(w *httptest.ResponseRecorder) {
		t.Helper()
		if n < len(want) && w.Code != want[n] {
			t.Errorf("request %d: status %d, want %d; body %s", n, w.Code, want[n], w.Body)
		}
		n++
	}
}

const peer = "192.0.2.1:1234"

func TestAdmittedThenDenied(t *testing.T) {
	var handler served
	h := httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "2/366d name=yearly"))(&handler)
	check := codes(t, 200, 200, 429)
	for n := range 3 {
		w := get(h, peer)
		check(w)
		if got, want := w.Header().Get("RateLimit-Remaining"), strconv.Itoa(max(0, 1-n)); got != want {
			t.Errorf("request %d: remaining %s, want %s", n, got, want)
		}
		if n < 2 {
			if w.Body.String() != "served" || w.Header().Get("Cache-Control") != "" || w.Header().Get("Retry-After") != "" {
				t.Errorf("request %d: %v %s", n, w.Header(), w.Body)
			}
			continue
		}
		var p headers.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Type != headers.QuotaExceeded || len(p.Violated) != 1 || p.Violated[0] != "yearly" {
			t.Errorf("body %s: %v", w.Body, err)
		}
	}
	if handler != 2 {
		t.Errorf("the handler ran %d times, want 2", handler)
	}
}

// B243: fields that a middleware outside has set, such as those of CORS, are on
// the refusal too. B245: no cache keeps it. B251, B253: Retry-After is whole
// seconds, no date, and within its jitter.
func TestRefusalFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler served
		limited := httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "1/100s"))(&handler)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://example.com")
			limited.ServeHTTP(w, r)
		})
		get(h, peer)
		for range 100 {
			w := get(h, peer)
			if w.Code != 429 || w.Header().Get("Access-Control-Allow-Origin") != "https://example.com" || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%d %v", w.Code, w.Header())
			}
			wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if err != nil || wait < 100 || wait > 120 {
				t.Fatalf("Retry-After %q, want 100 to 120", w.Header().Get("Retry-After"))
			}
			if want := `"default";r=0;t=` + strconv.Itoa(wait); w.Header().Get("RateLimit") != want {
				t.Fatalf("RateLimit %s, want %s", w.Header().Get("RateLimit"), want)
			}
		}
	})
}

// A client that waits as long as Retry-After says is admitted.
func TestRetryAfterIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler served
		h := httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "3/7s"))(&handler)
		for range 50 {
			for get(h, peer).Code == 200 {
			}
			wait, err := strconv.Atoi(get(h, peer).Header().Get("Retry-After"))
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Duration(wait) * time.Second) // the bubble's clock
			if w := get(h, peer); w.Code != 200 {
				t.Fatalf("%d after the wait of %d s", w.Code, wait)
			}
		}
	})
}

func TestRulesAreOneBill(t *testing.T) {
	var handler served
	l := limiter(t, weir.Options{})
	h := build(t, l, httplimit.Options{Rules: []httplimit.Rule{
		{Key: httplimit.Everyone(), Limits: []weir.Limit{limit(t, "3/366d name=all")}, Hidden: true},
		{Key: httplimit.ByHeader("X-User"), Limits: []weir.Limit{limit(t, "1/366d name=user")}},
	}})(&handler)
	check := codes(t, 200, 429, 429, 200, 200, 429)
	var last *httptest.ResponseRecorder
	// The refusals of a debit nothing of the limit on all.
	for _, user := range []string{"a", "a", "a", "b", "c", "d"} {
		last = get(h, peer, "X-User", user)
		check(last)
	}
	if got := last.Header().Get("RateLimit"); got != `"user";r=1;t=0` {
		t.Errorf("the last refusal shows %s, want the limit that may be shown alone", got)
	}
	if strings.Contains(last.Body.String(), "all") {
		t.Errorf("the body names the hidden limit: %s", last.Body)
	}
}

func TestPlanCostSkipSpace(t *testing.T) {
	var handler served
	l := limiter(t, weir.Options{})
	options := httplimit.Options{
		Rules: []httplimit.Rule{{
			Key: httplimit.ByHeader("X-User"), Limits: []weir.Limit{limit(t, "1/366d")},
			Plan: func(r *http.Request) []weir.Limit {
				switch r.Header.Get("X-Plan") {
				case "pro":
					return []weir.Limit{limit(t, "10/366d name=pro")}
				case "free of limits":
					return []weir.Limit{weir.Unlimited()}
				}
				return nil
			},
		}},
		Cost: func(r *http.Request) int64 {
			n, err := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
			if err != nil {
				return 1
			}
			return n
		},
		Skip: func(r *http.Request) bool { return r.Header.Get("X-Skip") != "" },
	}
	h := build(t, l, options)(&handler)
	for _, c := range []struct {
		name   string
		fields []string
		status int
		quota  string
	}{
		{"no plan", []string{"X-User", "a"}, 200, `"default";q=1;w=31622400`},
		{"no plan, spent", []string{"X-User", "a"}, 429, `"default";q=1;w=31622400`},
		{"skipped", []string{"X-User", "a", "X-Skip", "1"}, 200, ``},
		{"a plan", []string{"X-User", "a", "X-Plan", "pro", "X-Cost", "9"}, 200, `"pro";q=10;w=31622400`},
		{"a plan, spent", []string{"X-User", "a", "X-Plan", "pro", "X-Cost", "2"}, 429, `"pro";q=10;w=31622400`},
		{"a plan without end", []string{"X-User", "a", "X-Plan", "free of limits"}, 200, ``},
		{"a cost of nothing is no free pass", []string{"X-User", "b", "X-Cost", "0"}, 400, ``},
		{"a negative cost mints nothing", []string{"X-User", "b", "X-Cost", "-1000"}, 400, ``},
		{"b is charged nothing yet", []string{"X-User", "b"}, 200, `"default";q=1;w=31622400`},
		{"more than can ever fit", []string{"X-User", "c", "X-Cost", "2"}, 429, `"default";q=1;w=31622400`},
	} {
		w := get(h, peer, c.fields...)
		if w.Code != c.status || w.Header().Get("RateLimit-Policy") != c.quota {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, w.Header().Get("RateLimit-Policy"), c.status, c.quota)
		}
	}
	options.Space = "elsewhere"
	if w := get(build(t, l, options)(&handler), peer, "X-User", "a"); w.Code != 200 {
		t.Errorf("another space: %d", w.Code)
	}
}

func TestDeniedAndErrorHandlers(t *testing.T) {
	var handler served
	l := limiter(t, weir.Options{})
	rules := []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{limit(t, "1/366d")}}}
	h := build(t, l, httplimit.Options{
		Rules: rules,
		Denied: func(w http.ResponseWriter, r *http.Request, a *headers.Answer) {
			http.Error(w, "calm down", http.StatusTeapot)
		},
	})(&handler)
	codes(t, 200)(get(h, peer))
	w := get(h, peer)
	if w.Code != http.StatusTeapot || w.Body.String() != "calm down\n" || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}

	var told error
	h = build(t, l, httplimit.Options{
		Rules: rules, Cost: func(*http.Request) int64 { return 0 },
		OnError: func(w http.ResponseWriter, r *http.Request, err error) { told = err; w.WriteHeader(499) },
	})(&handler)
	if w := get(h, peer); w.Code != 499 || !errors.Is(told, httplimit.ErrCost) {
		t.Errorf("%d %v", w.Code, told)
	}
	if handler != 1 {
		t.Errorf("the handler ran %d times, want 1", handler)
	}
}

// policied returns a middleware of one rule, per address, and what it is made of.
func policied(t *testing.T, name string, match policy.Conditions) (func(http.Handler) http.Handler, *weir.Limiter, *gate.Gate) {
	t.Helper()
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(policy.Options{Rules: []policy.Rule{{
		Name: name, Match: match, Key: []identity.Part{ip}, Limit: limit(t, "1/366d"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter(t, weir.Options{})
	g := gate.New(l, nil, p)
	wrap, err := httplimit.Policy(l, g, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return wrap, l, g
}

func TestPolicy(t *testing.T) {
	wrap, l, g := policied(t, "login", policy.Conditions{Paths: []string{"/login"}})
	var handler served
	h := wrap(&handler)
	for _, c := range []struct {
		path, quota string
		status      int
	}{
		{"/", "", 200}, {"/login?x", `"login";r=0;t=31622400`, 200}, {"/%6Cogin", `"login";r=0`, 429}, {"/", "", 200},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.status || !strings.HasPrefix(w.Header().Get("RateLimit"), c.quota) || (c.quota == "") != (w.Header().Get("RateLimit") == "") {
			t.Errorf("%s: %d %q, want %d %q", c.path, w.Code, w.Header().Get("RateLimit"), c.status, c.quota)
		}
	}
	if _, err := httplimit.Policy(l, g, httplimit.Options{Space: "x"}); err == nil {
		t.Error("Policy took a Space")
	}
}

// A service that lets a POST name another method is limited behind what reads
// that name: the rule looks at the method that the handler acts on, and at no other.
func TestPolicySeesTheMethodInForce(t *testing.T) {
	wrap, _, _ := policied(t, "puts", policy.Conditions{Methods: []string{"PUT"}})
	var handler served
	limited := wrap(&handler)
	override := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if named := r.Header.Get("X-HTTP-Method-Override"); named != "" && r.Method == http.MethodPost {
			r.Method = named
		}
		limited.ServeHTTP(w, r)
	})
	for i, c := range []struct {
		method, named string
		status        int
		counted       bool
	}{
		{"POST", "PUT", 200, true},
		{"POST", "PUT", 429, true},
		{"PUT", "", 429, true},
		{"POST", "", 200, false},
		{"POST", "DELETE", 200, false},
		{"PUT", "POST", 429, true}, // names nothing: it is no POST
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		if c.named != "" {
			r.Header.Set("X-HTTP-Method-Override", c.named)
		}
		w := httptest.NewRecorder()
		override.ServeHTTP(w, r)
		if counted := w.Header().Get("RateLimit") != ""; w.Code != c.status || counted != c.counted {
			t.Errorf("request %d: %d, counted %v, want %d, %v", i, w.Code, counted, c.status, c.counted)
		}
	}
}
