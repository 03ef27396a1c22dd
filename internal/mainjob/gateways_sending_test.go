package mainjob

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sending asks for what is refused with a body that is still under way when the
// refusal is decided. A gateway that answers and closes before it has read what
// still comes resets the connection, and most clients then report the reset and
// not the answer. So a small body, late as it may be, must be taken to its end.
func (f *fronted) sending(t *testing.T, from string) {
	t.Helper()
	small := []string{strings.Repeat("x", 1000), strings.Repeat("x", 1000)}
	chunk := "3e8\r\n" + small[0] + "\r\n"
	kilobytes := slices.Repeat([]string{strings.Repeat("x", 50_000)}, 4)
	for _, body := range []struct {
		head  string
		parts []string
	}{
		{"Content-Length: 2000", small},
		{"Transfer-Encoding: chunked", []string{chunk, chunk + "0\r\n\r\n"}},
		{"Content-Length: 200000", kilobytes},
	} {
		w, text, err := f.inParts(t, from, body.head, body.parts)
		if err != nil || w.StatusCode != http.StatusTooManyRequests || w.Header.Get("Retry-After") == "" || !strings.Contains(text, "quota-exceeded") {
			t.Errorf("refused with a body under way, %s: %v %v %q", body.head, err, w, text)
		}
	}
	if !f.recipe.holds {
		if w, _, err := f.inParts(t, from, "Content-Length: 2000", nil); err != nil || w.StatusCode != http.StatusTooManyRequests {
			t.Errorf("refused with a body that never comes: %v %v", err, w)
		}
	}
	// Not everybody reads megabytes for a refusal's sake: the client gets its answer,
	// or sees the connection end while it sends. It gets no other answer.
	w, _, err := f.inParts(t, from, "Content-Length: 4000000", slices.Repeat(kilobytes, 20))
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) || err == nil && w.StatusCode != http.StatusTooManyRequests {
		t.Errorf("refused with a large body under way: %v %v", err, w)
	}
}

// TestProxyRefusesWhileClientsSend: our own proxy does what the recipes do. net/http
// takes up to 256 KiB of a body before it answers.
func TestProxyRefusesWhileClientsSend(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	addr := freeAddress(t)
	start(t, addr, weir, "proxy", "--upstream", app.URL, "--limit", "1/hour", "--listen", addr, "--drain-notice", "0s")
	f := &fronted{recipe: &recipe{holds: true}, url: "http://" + addr}
	if w, _ := f.ask(t, "127.0.0.2", "GET", "/api/x", nil); w.StatusCode != http.StatusOK {
		t.Fatalf("the one that is admitted: %d", w.StatusCode)
	}
	f.sending(t, "127.0.0.2")
}

// inParts sends a request whose body comes in parts. Before each of them it gives
// the gateway time to answer too early: until it does, or for a tenth of a second.
func (f *fronted) inParts(t *testing.T, from, head string, parts []string) (*http.Response, string, error) {
	t.Helper()
	host := strings.TrimPrefix(f.url, "http://")
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, part := range append([]string{fmt.Sprintf("POST /api/x HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", host, head)}, parts...) {
		if _, err := io.WriteString(conn, part); err != nil {
			return nil, "", fmt.Errorf("sending: %w", err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, "", fmt.Errorf("while sending: %w", err)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	w, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, "", fmt.Errorf("sent it all: %w", err)
	}
	text, err := io.ReadAll(w.Body)
	return w, string(text), errors.Join(err, w.Body.Close())
}
