package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/httplimit"
)

// A leaky bucket holds requests apart, and the handler runs when their time has
// come.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ran := make(chan time.Duration, 8)
		l := limiter(t, weir.Options{})
		h := build(t, l, httplimit.Options{
			Rules:    []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{limit(t, "1/s algorithm=leaky_bucket burst=9")}}},
			MaxDelay: 3 * time.Second,
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran <- time.Since(start) }))
		status := make(chan *httptest.ResponseRecorder, 6)
		for range 6 {
			go func() { status <- get(h, peer) }()
		}
		synctest.Wait()
		// Delays of 0 to 3 s are held; the other two are refused at once. Their
		// exact retry is 1 s, and up to a second of jitter is added.
		for range 3 {
			if w := <-status; w.Code == 429 {
				if s := w.Header().Get("Retry-After"); s < "1" || s > "2" || len(s) != 1 {
					t.Errorf("Retry-After %q, want 1 or 2", s)
				}
			}
		}
		d, err := l.Peek(t.Context(), limit(t, "1/s algorithm=leaky_bucket burst=9").Charge("ip:192.0.2.1"))
		if err != nil || d.Remaining != 6 {
			t.Errorf("remaining %d (%v), want 6: the refused took no place", d.Remaining, err)
		}
		for want := range 4 {
			if at := <-ran; at != time.Duration(want)*time.Second {
				t.Errorf("ran at %v, want %d s", at, want)
			}
		}
		for range 3 {
			if w := <-status; w.Code != 200 {
				t.Errorf("status %d", w.Code)
			}
		}
	})
}

// Who gives up while it is held does not run, and its place is given back.
func TestDelayGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handler served
		l := limiter(t, weir.Options{})
		h := httplimit.Middleware(l, httplimit.Everyone(), limit(t, "1/s algorithm=leaky_bucket burst=9"))(&handler)
		get(h, peer)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			done <- w.Code
		}()
		synctest.Wait()
		cancel()
		if code := <-done; code != 503 || handler != 1 {
			t.Errorf("status %d, handler ran %d times", code, handler)
		}
		d, err := l.Peek(t.Context(), limit(t, "1/s algorithm=leaky_bucket burst=9").Charge("everyone"))
		if err != nil || d.Remaining != 9 {
			t.Errorf("remaining %d (%v), want 9: one in the queue", d.Remaining, err)
		}
	})
}

// Where nobody may be held any more, a request that would have to wait is denied,
// and one that need not is admitted.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, weir.Options{})
		var handler atomic.Int32
		h := build(t, l, httplimit.Options{
			Rules:      []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{limit(t, "1/s algorithm=leaky_bucket burst=9")}}},
			MaxWaiting: 2,
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handler.Add(1) }))
		get(h, peer)
		for range 2 {
			go get(h, peer)
		}
		synctest.Wait() // two are held
		if w := get(h, peer); w.Code != 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third to wait: %d %v", w.Code, w.Header())
		}
		if w := get(h, "192.0.2.2:1"); w.Code != 200 {
			t.Errorf("one that need not wait: %d", w.Code)
		}
		<-time.After(5 * time.Second) // virtual
		synctest.Wait()
		get(h, peer)
		done := make(chan int)
		go func() { done <- get(h, peer).Code }()
		if code := <-done; code != 200 {
			t.Errorf("when there are places again: %d", code)
		}
		if n := handler.Load(); n != 6 {
			t.Errorf("the handler ran %d times", n)
		}
	})
}
