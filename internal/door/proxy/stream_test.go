package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw sends a request line by line and returns the connection and its reader.
func raw(t *testing.T, b *bench, lines ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil { // so that a failure is no hang
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func TestWebsocketPasses(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(conn, buffer) // echo
	})
	conn, reader := raw(t, b, "GET /ws HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade")
	w, err := http.ReadResponse(reader, nil)
	if err != nil || w.StatusCode != 101 {
		t.Fatalf("%v %v", w, err)
	}
	message := bytes.Repeat([]byte("\x00\xffecho"), 1000)
	go conn.Write(message)
	echo := make([]byte, len(message))
	if _, err := io.ReadFull(reader, echo); err != nil || !bytes.Equal(echo, message) {
		t.Errorf("%v, equal: %v", err, bytes.Equal(echo, message))
	}
}

func TestOtherUpgradesDoNotPass(t *testing.T) {
	for _, upgrade := range []string{"h2c", "websocket, h2c", "TLS/1.0", "websocket\r\nUpgrade: h2c"} {
		var got http.Header
		b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
		_, reader := raw(t, b, "GET / HTTP/1.1", "Host: h", "Connection: Upgrade, HTTP2-Settings, close", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", "Upgrade: "+upgrade)
		w, err := http.ReadResponse(reader, nil)
		if err != nil || w.StatusCode != 200 {
			t.Fatalf("%s: %v %v", upgrade, w, err)
		}
		if got["Upgrade"] != nil || got["Http2-Settings"] != nil {
			t.Errorf("%s passed: %v", upgrade, got)
		}
	}
}

// TestStreams: what the upstream has written arrives before it writes more.
func TestStreams(t *testing.T) {
	for _, fields := range [][2]string{
		{"Content-Type", "text/event-stream"}, {"Content-Type", "application/octet-stream"}, {"Content-Length", "18"},
	} {
		seen := make(chan struct{})
		b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(fields[0], fields[1])
			fmt.Fprint(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-seen:
				fmt.Fprint(w, "data: 2\n\n")
			case <-r.Context().Done():
			}
		})
		_, reader := raw(t, b, "GET / HTTP/1.1", "Host: h", "Connection: close")
		w, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 9)
		if _, err := io.ReadFull(w.Body, first); err != nil || string(first) != "data: 1\n\n" {
			t.Fatalf("%q %v", first, err)
		}
		close(seen)
		if rest, err := io.ReadAll(w.Body); err != nil || string(rest) != "data: 2\n\n" {
			t.Errorf("%q %v", rest, err)
		}
	}
}

// TestBodyIsNotBuffered: the upstream has the first part of a request's body
// before the client sends the second.
func TestBodyIsNotBuffered(t *testing.T) {
	got := make(chan string)
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) {
		for part := make([]byte, 5); ; {
			if _, err := io.ReadFull(r.Body, part); err != nil {
				close(got)
				return
			}
			got <- string(part)
		}
	})
	body, writer := io.Pipe()
	go func() {
		for _, part := range []string{"first", "again"} {
			if _, err := io.WriteString(writer, part); err != nil {
				return
			}
			if seen := <-got; seen != part {
				t.Errorf("%q arrived for %q", seen, part)
			}
		}
		writer.Close()
	}()
	if w, _ := b.do(t, "POST", "/", body); w.StatusCode != 200 {
		t.Errorf("%d", w.StatusCode)
	}
}

func TestTrailersPass(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "down "+r.Trailer.Get("X-Up"))
	})
	_, reader := raw(t, b, "POST / HTTP/1.1", "Host: h", "Connection: close", "Transfer-Encoding: chunked", "Trailer: X-Up", "",
		"1", "a", "0", "X-Up: up")
	w, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, w.Body); err != nil || w.Trailer.Get("X-Sum") != "down up" {
		t.Errorf("%v %v", w.Trailer, err)
	}
}

// TestContinue: who is denied is told before sending the body, and who is
// admitted is told to go on.
func TestContinue(t *testing.T) {
	b := newBench(t, settings{limit: "1/h"}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", body, err)
	})
	request := []string{"POST / HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 4"}
	conn, reader := raw(t, b, request...)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "body")
	w, err := http.ReadResponse(reader, nil)
	if err != nil || w.StatusCode != 200 {
		t.Fatalf("%v %v", w, err)
	}
	_, reader = raw(t, b, request...)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "429") {
		t.Errorf("%q %v", line, err)
	}
}

// TestContinueIsToldOnce, however often the upstream says it.
func TestContinueIsToldOnce(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
		body := make([]byte, 4)
		_, err = io.ReadFull(buffer, body)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s %v", body, err)
	})
	conn, reader := raw(t, b, "POST / HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 4")
	for _, want := range []int{100, 200} {
		w, err := http.ReadResponse(reader, nil)
		if err != nil || w.StatusCode != want {
			t.Fatalf("%v %v, not %d", w, err, want)
		}
		if want == 100 {
			fmt.Fprint(conn, "body")
			continue
		}
		if got, err := io.ReadAll(w.Body); err != nil || string(got) != "body <nil>" {
			t.Errorf("%s %v", got, err)
		}
	}
}
