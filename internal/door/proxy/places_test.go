package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowdedBench is a proxy with so many connections to an upstream, each of which
// has a request that the upstream holds back until release is closed.
func crowdedBench(t *testing.T, connections int, log *slog.Logger) (b *bench, us *upstreams, release func()) {
	t.Helper()
	arrived, held := make(chan struct{}), make(chan struct{})
	b = newBench(t, settings{options: Options{Connections: connections, HealthPath: "/healthz", Log: log}}, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			arrived <- struct{}{}
			<-held
		}
	})
	var ended sync.WaitGroup
	for range connections {
		ended.Go(func() {
			if w, _ := b.do(t, "GET", "/held", nil); w.StatusCode != 200 {
				t.Errorf("a request that has a connection: %d", w.StatusCode)
			}
		})
		<-arrived
	}
	release = sync.OnceFunc(func() { close(held); ended.Wait() })
	t.Cleanup(release)
	return b, b.door.upstream.Transport.(*upstreams), release
}

// TestConnectionsToUpstreamsAreBounded: requests over the bound wait for a while
// and are told to come back; one that waits is served when a connection is free.
// The upstream is neither down nor ill for it, and the log says it once.
func TestConnectionsToUpstreamsAreBounded(t *testing.T) {
	var log strings.Builder
	b, us, release := crowdedBench(t, 3, slog.New(slog.NewTextHandler(&log, nil)))
	us.all[0].checked.Store(-1) // the next request has the health path asked
	var ended sync.WaitGroup
	for range 5 {
		ended.Go(func() {
			w, body := b.do(t, "GET", "/", nil)
			after, err := strconv.Atoi(w.Header.Get("Retry-After"))
			if w.StatusCode != 503 || err != nil || after < 1 || after > 3 || !strings.Contains(body, "in use") {
				t.Errorf("%d, Retry-After %q, %s", w.StatusCode, w.Header.Get("Retry-After"), body)
			}
		})
	}
	ended.Wait()
	for us.all[0].checking.Load() {
		runtime.Gosched()
	}
	if u := us.all[0]; u.checked.Load() < 0 || u.sick.Load() || !u.up(us.clock()) {
		t.Error("the upstream counts as ill or as down")
	}
	ended.Go(func() {
		if w, _ := b.do(t, "GET", "/", nil); w.StatusCode != 200 {
			t.Errorf("a request that waited until a connection was free: %d", w.StatusCode)
		}
	})
	for us.places.waiting.Load() == 0 {
		runtime.Gosched()
	}
	release()
	ended.Wait()
	if n := strings.Count(log.String(), "all connections to upstreams are in use"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// TestIdleConnectionsMakeRoom: a connection that nobody uses, to one upstream, is
// closed for a request to another.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	var others []string
	for range 2 {
		up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(up.Close)
		others = append(others, up.URL)
	}
	b := newBench(t, settings{options: Options{Connections: 1}, more: others}, func(http.ResponseWriter, *http.Request) {})
	began := time.Now()
	for range 9 { // in turn
		if w, _ := b.do(t, "GET", "/", nil); w.StatusCode != 200 {
			t.Fatalf("%d after %v", w.StatusCode, time.Since(began))
		}
	}
}
