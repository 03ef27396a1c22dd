package mainjob

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestDescriptors: a proxy and an API that may open 256 files keep 64 back and
// divide the rest: 76 clients each and 38 connections to upstreams. With all of
// them taken, requests to the proxy are answered 503 with Retry-After, newcomers
// are closed, and the API does not notice; the log says each once, and nothing
// failed for want of a descriptor.
func TestDescriptors(t *testing.T) {
	const files, clients, upstreams = 256, 76, 38
	var inside atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside.Add(1)
		defer inside.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body) // its client goes away in the middle
	}))
	defer app.Close()
	front, api := freeAddress(t), freeAddress(t)
	p := start(t, front, "sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(files),
		weir, "proxy", "--upstream", app.URL, "--limit", "1000000/s", "--listen", front, "--http", api, "--drain-notice", "0s", "--drain-grace", "1s")
	come := func(what string) net.Conn {
		conn, err := net.Dial("tcp", front)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, what)
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var slow []net.Conn
	for range upstreams {
		slow = append(slow, come("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345"))
	}
	p.await(t, "passed on what there are connections for", func() bool { return inside.Load() == upstreams })

	const head = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	late := time.Now().Add(20 * time.Second)
	var waiting []net.Conn
	for range clients - upstreams {
		waiting = append(waiting, come(head))
	}
	for range 3 * files {
		if n, err := come("").Read(make([]byte, 1)); err == nil {
			t.Fatalf("one client too many read %d bytes", n)
		}
	}
	if err := func() error {
		conn, err := net.Dial("tcp", api)
		if err != nil {
			return err
		}
		defer conn.Close()
		return ask(conn, bufio.NewReader(conn), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
	}(); err != nil {
		t.Errorf("the API: %v", err)
	}
	for i, conn := range waiting {
		if err := conn.SetDeadline(late); err != nil {
			t.Fatal(err)
		}
		w, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("client %d that waits: %v", i, err)
		}
		if w.StatusCode != http.StatusServiceUnavailable || w.Header.Get("Retry-After") == "" {
			t.Errorf("client %d that waits: %s, Retry-After %q", i, w.Status, w.Header.Get("Retry-After"))
		}
		_ = w.Body.Close() // of an answer that is dropped
	}
	for _, conn := range slow {
		_ = conn.Close() // likewise
	}
	p.await(t, "served again", func() bool {
		conn, err := net.Dial("tcp", front)
		if err != nil {
			return false
		}
		defer conn.Close()
		return ask(conn, bufio.NewReader(conn), strings.TrimSuffix(head, "\r\n")) == nil
	})
	for what, want := range map[string]int{"the door is full": 1, "all connections to upstreams are in use": 1, "too many open files": 0, "level=ERROR": 0} {
		if n := strings.Count(p.output.String(), what); n != want {
			t.Errorf("the log says %d times %q, want %d:\n%s", n, what, want, p.output.String())
		}
	}
}
