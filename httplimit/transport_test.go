package httplimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
)

// upstream answers requests by its script, one answer each, and notes when they
// came and what they carried. It is used under a bubble's clock.
type upstream struct {
	start  time.Time
	mu     sync.Mutex
	script []answer
	came   []time.Duration
	bodies []string
}

type answer struct {
	status int
	fields map[string]string
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.came = append(u.came, time.Since(u.start))
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		body = string(b)
	}
	u.bodies = append(u.bodies, body)
	a := answer{status: 200}
	if len(u.script) > 0 {
		a, u.script = u.script[0], u.script[1:]
	}
	res := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x")), Request: r}
	for name, value := range a.fields {
		res.Header.Set(name, value)
	}
	return res, nil
}

func transport(t *testing.T, o httplimit.TransportOptions) *httplimit.Transport {
	t.Helper()
	tr, err := httplimit.NewTransport(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// send sends a request and returns the status, 0 for an error.
func send(t *testing.T, tr http.RoundTripper, method, url string, body io.Reader) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, nil
}

var refusal = answer{429, map[string]string{"Retry-After": "7"}}

func TestTransportObeysTheUpstream(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		script  []answer
		retries int
		urls    []string // one request each, one after another
		method  string
		body    string
		status  []int
		came    []time.Duration
	}{
		{"nothing asked for", nil, 0, []string{"http://a/", "http://a/"}, "GET", "", []int{200, 200}, []time.Duration{0, 0}},
		{"a refusal is handed back, the next waits", []answer{refusal}, 0, []string{"http://a/", "http://a/x"}, "GET", "", []int{429, 200}, []time.Duration{0, 7 * s}},
		{"other hosts do not wait", []answer{refusal}, 0, []string{"http://a/", "http://b/", "https://a/"}, "GET", "", []int{429, 200, 200}, []time.Duration{0, 0, 0}},
		{"a quota that is spent", []answer{{200, map[string]string{"RateLimit": `"default";r=0;t=5`}}}, 0, []string{"http://a/", "http://a/"}, "GET", "", []int{200, 200}, []time.Duration{0, 5 * s}},
		{"a retry", []answer{refusal}, 1, []string{"http://a/"}, "GET", "", []int{200}, []time.Duration{0, 7 * s}},
		{"retries end", []answer{refusal, refusal, refusal}, 1, []string{"http://a/"}, "GET", "", []int{429}, []time.Duration{0, 7 * s}},
		{"a refusal that does not say for how long is not tried again", []answer{{status: 429}}, 3, []string{"http://a/"}, "GET", "", []int{429}, []time.Duration{0}},
		{"a wait that is too long is handed back", []answer{{429, map[string]string{"Retry-After": "61"}}}, 1, []string{"http://a/"}, "GET", "", []int{429}, []time.Duration{0}},
		{"a refused POST was not done", []answer{refusal}, 1, []string{"http://a/"}, "POST", "b", []int{200}, []time.Duration{0, 7 * s}},
		{"a failed POST may have been", []answer{{503, map[string]string{"Retry-After": "7"}}}, 1, []string{"http://a/"}, "POST", "b", []int{503}, []time.Duration{0}},
		{"a failed PUT may be sent again", []answer{{503, map[string]string{"Retry-After": "7"}}}, 1, []string{"http://a/"}, "PUT", "b", []int{200}, []time.Duration{0, 7 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := &upstream{start: time.Now(), script: c.script}
				tr := transport(t, httplimit.TransportOptions{Base: u, Retries: c.retries})
				for i, url := range c.urls {
					var body io.Reader
					if c.body != "" {
						body = strings.NewReader(c.body)
					}
					if status, err := send(t, tr, c.method, url, body); err != nil || status != c.status[i] {
						t.Errorf("request %d: %d %v, want %d", i, status, err, c.status[i])
					}
				}
				if fmt.Sprint(u.came) != fmt.Sprint(c.came) {
					t.Errorf("sent at %v, want %v", u.came, c.came)
				}
				for i, b := range u.bodies {
					if b != c.body {
						t.Errorf("request %d carried %q, want %q", i, b, c.body)
					}
				}
			})
		})
	}
}

// A body that cannot be had twice is sent once: the refusal is the answer.
func TestTransportBodyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now(), script: []answer{refusal}}
		tr := transport(t, httplimit.TransportOptions{Base: u, Retries: 5})
		if status, err := send(t, tr, "POST", "http://a/", io.MultiReader(strings.NewReader("once"))); err != nil || status != 429 || len(u.came) != 1 {
			t.Errorf("%d %v, sent %d times", status, err, len(u.came))
		}
	})
}

func TestTransportOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now()}
		ours := limit(t, "1/s")
		tr := transport(t, httplimit.TransportOptions{
			Base: u, Limiter: limiter(t, weir.Options{}), MaxWait: 3 * time.Second,
			Charges: func(r *http.Request) []weir.Charge {
				c := ours.Charge(r.URL.Host)
				if n := r.URL.Query().Get("cost"); n != "" {
					c.Cost, _ = strconv.ParseInt(n, 10, 64)
				}
				return []weir.Charge{c}
			},
		})
		for range 3 {
			if status, err := send(t, tr, "GET", "http://a/", nil); err != nil || status != 200 {
				t.Fatal(status, err)
			}
		}
		if want := "[0s 1s 2s]"; fmt.Sprint(u.came) != want {
			t.Errorf("sent at %v, want %s", u.came, want)
		}
		var held *httplimit.HeldError
		if _, err := send(t, tr, "GET", "http://a/?cost=2", nil); !errors.As(err, &held) || held.Upstream || held.For != weir.Never {
			t.Errorf("more than can ever fit: %v", err)
		}
		// Four at once: of those, one in 1 s, one in 2 s, one in 3 s; the last
		// would wait 4 s and fails at once: it may come back in 1 s.
		failed, began := make(chan error, 4), time.Now()
		for range 4 {
			go func() {
				_, err := tr.RoundTrip(httptest.NewRequest("GET", "http://a/", nil))
				failed <- err
			}()
		}
		if err := <-failed; !errors.As(err, &held) || held.For != time.Second || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		for range 3 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	})
}

// Waiting ends with the context, and what was charged ahead is given back; a
// deadline that is too near fails at once. The body is closed either way.
func TestTransportContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now(), script: []answer{{429, map[string]string{"Retry-After": "30"}}}}
		l, ours := limiter(t, weir.Options{}), limit(t, "1/s burst=9")
		tr := transport(t, httplimit.TransportOptions{Base: u, Limiter: l, Charges: func(*http.Request) []weir.Charge { return []weir.Charge{ours.Charge("a")} }})
		if _, err := send(t, tr, "GET", "http://a/", nil); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			ctx  func() (context.Context, context.CancelFunc)
			want error
			at   time.Duration
		}{
			{"cancelled while the upstream wants quiet", func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(5*time.Second, cancel)
				return ctx, cancel
			}, context.Canceled, 5 * time.Second},
			{"a deadline before the end of the quiet", func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 10*time.Second)
			}, &httplimit.HeldError{Upstream: true, For: 25 * time.Second}, 0},
		} {
			ctx, cancel := c.ctx()
			body := &closed{Reader: bytes.NewReader([]byte("b"))}
			r, err := http.NewRequestWithContext(ctx, "POST", "http://a/", body)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = tr.RoundTrip(r)
			var held *httplimit.HeldError
			if errors.As(err, &held) {
				if fmt.Sprint(held) != fmt.Sprint(c.want) {
					t.Errorf("%s: %v, want %v", c.name, held, c.want)
				}
			} else if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
			if time.Since(began) != c.at || !body.closed || len(u.came) != 1 {
				t.Errorf("%s: after %v, want %v; body closed %v; %d sent", c.name, time.Since(began), c.at, body.closed, len(u.came))
			}
			cancel()
		}
	})
}

// While our limit holds a request back, the upstream asks for more quiet than it may
// wait for: it is not sent, and has used nothing.
func TestTransportGivesBackWhatIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now(), script: []answer{{200, nil}, {429, map[string]string{"Retry-After": "3600"}}}}
		l, ours := limiter(t, weir.Options{}), limit(t, "1/min algorithm=token_bucket")
		tr := transport(t, httplimit.TransportOptions{Base: u, Limiter: l, MaxWait: 2 * time.Minute, Charges: func(r *http.Request) []weir.Charge {
			if r.URL.Path == "/free" {
				return nil
			}
			return []weir.Charge{ours.Charge("a")}
		}})
		if _, err := send(t, tr, "GET", "http://a/", nil); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error)
		go func() {
			_, err := tr.RoundTrip(httptest.NewRequest("GET", "http://a/", nil))
			waits <- err
		}()
		synctest.Wait()
		if status, err := send(t, tr, "GET", "http://a/free", nil); err != nil || status != 429 {
			t.Fatal(status, err)
		}
		var held *httplimit.HeldError
		if err := <-waits; !errors.As(err, &held) || !held.Upstream {
			t.Errorf("%v", err)
		}
		if d, err := l.Peek(t.Context(), ours.Charge("a")); err != nil || !d.Allowed {
			t.Errorf("what was not sent was charged: %+v %v", d, err)
		}
	})
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error { c.closed = true; return nil }

// roundTrip is a RoundTripper that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An answer that arrives late and asks for less does not end a longer quiet.
func TestTransportKeepsTheLongestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := transport(t, httplimit.TransportOptions{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			quiet := "30"
			if r.URL.Path == "/late" {
				<-time.After(time.Second)
				quiet = "2"
			}
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {quiet}}, Body: http.NoBody, Request: r}, nil
		})})
		began := time.Now()
		late := make(chan error)
		go func() {
			_, err := tr.RoundTrip(httptest.NewRequest("GET", "http://a/late", nil))
			late <- err
		}()
		synctest.Wait()
		if _, err := send(t, tr, "GET", "http://a/", nil); err != nil {
			t.Fatal(err)
		}
		if err := <-late; err != nil {
			t.Fatal(err)
		}
		if _, err := send(t, tr, "GET", "http://a/", nil); err != nil || time.Since(began) != 30*time.Second {
			t.Errorf("sent after %v (%v), want 30 s", time.Since(began), err)
		}
	})
}

// Of many destinations the newest quiet is kept.
func TestTransportForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now()}
		tr := transport(t, httplimit.TransportOptions{Base: u})
		for n := range 5000 {
			u.script = []answer{{429, map[string]string{"Retry-After": strconv.Itoa(10 + n%7)}}}
			if _, err := send(t, tr, "GET", fmt.Sprintf("http://host-%d/", n), nil); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := send(t, tr, "GET", "http://host-4999/", nil); err != nil || time.Since(began) < 10*time.Second {
			t.Errorf("the newest was forgotten: sent after %v (%v)", time.Since(began), err)
		}
	})
}

func TestTransportOptions(t *testing.T) {
	for want, o := range map[string]httplimit.TransportOptions{
		"Limiter and Charges": {Charges: func(*http.Request) []weir.Charge { return nil }},
		"MaxWait":             {MaxWait: -1},
		"Retries":             {Retries: -1},
	} {
		if _, err := httplimit.NewTransport(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Our own middleware and our own transport, over real HTTP: what the one says
// the other obeys. The quiet is real here, and one second long.
func TestTransportAgainstMiddleware(t *testing.T) {
	s := httptest.NewServer(build(t, limiter(t, weir.Options{}), httplimit.Options{
		Rules:   []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{limit(t, "1/s")}}},
		Headers: headers.Options{Random: func(int64) int64 { return 0 }},
	})(nothing))
	defer s.Close()
	tr := transport(t, httplimit.TransportOptions{Base: s.Client().Transport, Retries: 2})
	defer tr.CloseIdleConnections()
	for n := range 2 {
		if status, err := send(t, tr, "POST", s.URL, strings.NewReader("body")); err != nil || status != 200 {
			t.Errorf("request %d: status %d, %v", n, status, err)
		}
	}
}

// MaxWait bounds what all the waits of a request come to.
func TestTransportMaxWaitIsForAllRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{start: time.Now(), script: []answer{refusal, refusal, refusal, refusal}}
		tr := transport(t, httplimit.TransportOptions{Base: u, Retries: 3, MaxWait: 15 * time.Second})
		if status, err := send(t, tr, "GET", "http://a/", nil); err != nil || status != 429 {
			t.Error(status, err)
		}
		if want := "[0s 7s 14s]"; fmt.Sprint(u.came) != want { // a third wait would end at 21 s
			t.Errorf("sent at %v, want %s", u.came, want)
		}
	})
}
