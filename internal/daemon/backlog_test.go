package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Who is connected when a door begins to close is answered, even those whom only
// the kernel knows of so far.
func TestTheBacklogIsServed(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l := Listen{Address: address}
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		server, err := newHTTPServer(ok, apiTimeouts, slog.New(slog.DiscardHandler), "http", &l)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := l.open("http", maxConnections, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		const waiting = 100
		var conns []net.Conn
		for range waiting {
			conn, err := net.Dial(listener.Addr().Network(), listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		served, left := make(chan error, 1), make(chan error, 1)
		go func() {
			listener.backlog.leave()
			left <- server.Shutdown(context.Background())
		}()
		for listener.backlog.end.Load() == 0 { // until it has begun to leave
			runtime.Gosched()
		}
		server.Drain()
		go func() { served <- server.Serve(listener) }()
		for i, conn := range conns {
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != 200 {
				t.Fatalf("%s: request %d of %d: %v", address, i, waiting, err)
			}
		}
		if err := <-left; err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if conn, err := net.Dial(listener.Addr().Network(), listener.Addr().String()); err == nil {
			conn.Close()
			t.Errorf("%s: still open", address)
		}
	}
}

// tardy hears of its second deadline late: somebody has come meanwhile.
type tardy struct {
	*net.TCPListener
	deadlines int
	comes     func()
}

func (l *tardy) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if l.deadlines++; l.deadlines == 2 {
			l.comes()
		}
	}
	return conn, err
}

// Who comes while a busy machine is late to tell that nobody came is not reset.
func TestALateDeadlineLosesNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var client net.Conn
	b := newBacklog(&tardy{TCPListener: l.(*net.TCPListener), comes: func() {
		if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Error(err)
		}
	}})
	go func() { b.leave(); b.Close() }()
	for b.end.Load() == 0 { // until it has begun to leave
		runtime.Gosched()
	}
	conn, err := b.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if conn.RemoteAddr().String() != client.LocalAddr().String() {
		t.Errorf("%v was accepted, and %v came", conn.RemoteAddr(), client.LocalAddr())
	}
	if _, err := io.WriteString(conn, "answer"); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if answer, err := io.ReadAll(client); string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := b.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it accepts on: %v", err)
	}
}
