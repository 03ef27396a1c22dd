package proxy

import (
	"context"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// newQueued returns a proxy whose policy paces: one a second, three may wait.
// Its decisions are tried without a server, on virtual time.
func newQueued(t *testing.T, most int) *proxy {
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	format, err := headers.New(headers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Upstreams: []*url.URL{{Scheme: "http", Host: "unused"}}, MaxWaiting: most, Limiter: l, Format: func() *headers.Format { return format }}
	o.Gate = gate.New(l, nil, perIP(t, "1/s burst=3 algorithm=leaky_bucket"))
	return New(o).(*proxy)
}

// ask returns the status and how long the request was held back.
func (p *proxy) ask(ctx context.Context) (status int, held time.Duration) {
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	w := httptest.NewRecorder()
	began := time.Now()
	if p.admit(w, r) != nil {
		return 200, time.Since(began)
	}
	return w.Code, time.Since(began)
}

func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newQueued(t, 10)
		for i := range 4 {
			go func() {
				want := time.Duration(i) * time.Second
				if status, held := p.ask(t.Context()); status != 200 || held != want {
					t.Errorf("request %d: %d after %v, not %v", i, status, held, want)
				}
			}()
			synctest.Wait()
		}
		if status, _ := p.ask(t.Context()); status != 429 {
			t.Errorf("the fifth: %d", status)
		}
		<-time.After(4 * time.Second) // virtual
		synctest.Wait()
		if n := p.queue.places.Load(); n != 0 {
			t.Errorf("%d places are still taken", n)
		}
	})
}

// TestQueueIsBounded: where nobody may wait any more, a request that would have
// to is refused, and one that need not is admitted.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newQueued(t, 1)
		p.ask(t.Context())
		go p.ask(t.Context())
		synctest.Wait() // it waits
		if status, held := p.ask(t.Context()); status != 429 || held != 0 {
			t.Errorf("%d after %v", status, held)
		}
		<-time.After(5 * time.Second) // virtual
		synctest.Wait()
		if status, held := p.ask(t.Context()); status != 200 || held != 0 {
			t.Errorf("later: %d after %v", status, held)
		}
	})
}

// TestEveryEndLeavesTheQueue: one place serves request after request, whatever
// comes of each.
func TestEveryEndLeavesTheQueue(t *testing.T) {
	p := newQueued(t, 1)
	format := p.Format
	for name, end := range map[string]func(){
		"panicked": func() {
			defer func() {
				if recover() == nil {
					t.Error("nothing panicked: the test is void")
				}
			}()
			p.Format = func() *headers.Format { panic("planted") }
			p.ask(t.Context())
		},
		"bad input": func() {
			r := httptest.NewRequest("GET", "/a%2F../b", nil)
			w := httptest.NewRecorder()
			if p.admit(w, r) != nil || w.Code != 400 {
				t.Errorf("an ambiguous path: %d", w.Code)
			}
		},
		"a client that is gone": func() {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			p.ask(gone)
		},
		"refused": func() {
			for status := 200; status != 429; {
				status, _ = p.ask(t.Context())
			}
		},
	} {
		p.Gate = gate.New(p.Limiter, nil, compiled(t, "1/s algorithm=leaky_bucket", true))
		p.Format = format
		end()
		if n := p.queue.places.Load(); n != 0 {
			t.Errorf("%s: %d places are still taken", name, n)
			p.queue.places.Store(0)
		}
	}
}

// TestGivenUp: who goes away while waiting gets the place in the queue back.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newQueued(t, 10)
		p.ask(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		go p.ask(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if status, held := p.ask(t.Context()); status != 200 || held != time.Second {
			t.Errorf("%d after %v: the charge of the one who left was kept", status, held)
		}
	})
}

// TestHeldNoLongerThan: who would wait longer than anybody is held is refused at
// once, with when it is worth trying again, and nothing is charged.
func TestHeldNoLongerThan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newQueued(t, 10)
		p.MaxWait = 1500 * time.Millisecond
		for i := range 2 {
			go func() {
				if status, held := p.ask(t.Context()); status != 200 || held != time.Duration(i)*time.Second {
					t.Errorf("request %d: %d after %v", i, status, held)
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			if status, held := p.ask(t.Context()); status != 429 || held != 0 {
				t.Errorf("one too many: %d after %v", status, held)
			}
		}
		<-time.After(time.Second) // virtual
		if status, held := p.ask(t.Context()); status != 200 || held != time.Second {
			t.Errorf("a second later: %d after %v", status, held)
		}
		synctest.Wait()
	})
}
