package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/door/proxy"
)

// slowClients is what clients do that never come to an end, and how many of each
// there are at a time.
const slowClients = 50

var slow = map[string]string{
	"says nothing":             "",
	"half a header":            "GET / HTTP/1.1\r\nHost: loc",
	"half a body":              "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf",
	"stays after the answer":   "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
	"does not read the answer": "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
}

// Clients that take for ever are left, all of them, while others are served; no
// descriptor stays behind.
func TestSlowClientsAreLeft(t *testing.T) {
	short := Timeouts{Header: 300 * time.Millisecond, Body: 400 * time.Millisecond, Answer: 600 * time.Millisecond, Idle: 300 * time.Millisecond}
	large := strings.Repeat("x", 1<<20)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		for range 64 {
			if r.URL.Path != "/large" {
				_, _ = io.WriteString(w, "ok")
				return
			}
			if _, err := io.WriteString(w, large); err != nil {
				return
			}
		}
	})
	l := &Listen{Address: "127.0.0.1:0"}
	s, err := newHTTPServer(handler, short, slog.New(slog.DiscardHandler), "http", l)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := l.open("http", maxConnections, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	before := openFiles(t)
	var clients []net.Conn
	for what, text := range slow {
		for range slowClients {
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			clients = append(clients, c)
		}
	}
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("beside %d slow clients: %v", len(clients), err)
	} else if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	// The server's ends are gone when only the clients' are left.
	until(t, func() string {
		if open := openFiles(t) - before; open > len(clients) {
			return fmt.Sprintf("%d descriptors for %d clients", open, len(clients))
		}
		return ""
	})
	for _, c := range clients {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	until(t, func() string {
		if open := openFiles(t) - before; open > 0 {
			return fmt.Sprintf("%d descriptors stay", open)
		}
		return ""
	})
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(listener.Close(), <-ended); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A header that is too large is refused and not kept.
func TestHeadersAreBounded(t *testing.T) {
	d := begin(t, Config{Doors: []Door{HTTP(Listen{Address: "127.0.0.1:0"})}})
	c, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n")
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(bufio.NewReader(c), nil)
	}
	if err != nil || answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%+v %v", answer, err)
	}
}

// However few descriptors there are, doors and what a proxy opens leave some for
// the store.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	for descriptors, want := range map[uint64]int{1: 1, 64: 1, 256: 48, 1024: 224, 20_000: 4374, 1 << 20: maxConnections, 1<<64 - 1: maxConnections} {
		if got := connectionCap(descriptors, clientParts, 4*clientParts); got != want {
			t.Errorf("%d descriptors: a door of four takes %d, want %d", descriptors, got, want)
		}
	}
	if got := connectionCap(20_000, clientParts, clientParts); got != maxConnections {
		t.Errorf("20,000 descriptors: the only door takes %d", got)
	}
	both := []Door{HTTP(Listen{}), Proxy(Listen{}, proxy.Options{})}
	for i, want := range [][2]int{{7000, 3500}, {11_666, 5833}} {
		parts := partsOf(both[i:])
		clients, upstreams := connectionCap(20_000, clientParts, parts), connectionCap(20_000, upstreamParts, parts)
		if clients != want[0] || upstreams != want[1] {
			t.Errorf("20,000 descriptors, %d doors: %d clients each, %d upstreams; want %d", len(both)-i, clients, upstreams, want)
		}
	}
}

// A door that is full closes whoever comes, says so once, and again when it has
// been emptier; those inside stay.
func TestFullDoor(t *testing.T) {
	bottom, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 100)
	l := &capped{Listener: bottom, room: make(chan struct{}, 4), full: func() { told <- struct{}{} }}
	inside := make(chan net.Conn)
	go func() {
		defer close(inside)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			inside <- c
		}
	}()
	come := func() net.Conn {
		c, err := net.Dial("tcp", bottom.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for episode := 1; episode <= 2; episode++ {
		var served []net.Conn
		for range 4 {
			come()
			served = append(served, <-inside)
		}
		for range 3 {
			if _, err := come().Read(make([]byte, 1)); err == nil {
				t.Error("one too many got a byte")
			}
		}
		if len(told) != episode {
			t.Errorf("told %d times of %d", len(told), episode)
		}
		for _, c := range served {
			if err := errors.Join(c.Close(), c.Close()); err == nil {
				t.Error("the second Close is to fail")
			}
		}
		if len(l.room) != 0 {
			t.Errorf("%d places stay taken", len(l.room))
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	<-inside
}

// openFiles counts this process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
