package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// stuckBench is a proxy with two connections to its upstream that gives clients up
// soon. The upstream sends without end, waits for a body, or talks when told to.
func stuckBench(t *testing.T) (b *bench, talk chan string) {
	t.Helper()
	talk = make(chan string)
	o := Options{Connections: 2, ProgressWithin: 500 * time.Millisecond}
	return newBench(t, settings{options: o}, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/endless":
			_, _ = io.Copy(w, zeros{})
		case "/body", "/early":
			if r.URL.Path == "/early" {
				w.WriteHeader(http.StatusAccepted)
				_ = control.Flush()
			}
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d %v", len(body), err)
		case "/talk":
			_ = control.Flush()
			for {
				select {
				case text := <-talk:
					fmt.Fprintln(w, text)
					_ = control.Flush()
				case <-r.Context().Done():
					return
				}
			}
		case "/websocket":
			conn, buffer, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			if r.Header.Get("Flood") != "" {
				_, _ = io.Copy(conn, zeros{})
			}
			_, _ = io.Copy(conn, buffer)
		}
	}), talk
}

var stuckClients = map[string][]string{
	"takes no answer":               {"GET /endless HTTP/1.1", "Host: h"},
	"takes nothing of a websocket":  {"GET /websocket HTTP/1.1", "Host: h", "Flood: yes", "Connection: Upgrade", "Upgrade: websocket"},
	"sends half a body":             {"POST /body HTTP/1.1", "Host: h", "Content-Length: 100", "", "half"},
	"sends half a body in chunks":   {"POST /body HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", "", "4", "half"},
	"sends half to who has spoken":  {"POST /early HTTP/1.1", "Host: h", "Content-Length: 100", "", "half"},
	"sends no body to who expected": {"POST /body HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 4"},
}

// pass has clients that are stuck come and be given up, so that who was silent
// meanwhile was so for longer than a client may be stuck.
func pass(t *testing.T, b *bench) {
	t.Helper()
	conn, reader := raw(t, b, stuckClients["sends half a body"]...)
	if w, err := http.ReadResponse(reader, nil); err != nil || w.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("who sends half a body: %v %v", w, err)
	}
	_ = conn.Close()
}

// TestStuckClientsAreGivenUp: clients that take nothing and send nothing leave their
// connections to the upstream to others.
func TestStuckClientsAreGivenUp(t *testing.T) {
	for name, lines := range stuckClients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := stuckBench(t)
			for range 2 { // as many as there are connections
				raw(t, b, lines...) // and is not read
			}
			us := b.door.upstream.Transport.(*upstreams)
			for us.turn.Load() < 2 { // both are on their way
				<-time.After(time.Millisecond)
			}
			for range 4 {
				if w, got := b.do(t, "POST", "/body", strings.NewReader("body")); w.StatusCode != 200 || got != "4 <nil>" {
					t.Errorf("beside two of whom each %s: %d %s", name, w.StatusCode, got)
				}
			}
		})
	}
}

// TestStuckOverHTTP2: a stream that is given up ends alone.
func TestStuckOverHTTP2(t *testing.T) {
	b, _ := stuckBench(t)
	c := speaking(t, true)
	ask := func(method, path string, body io.Reader) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, b.url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Body.Close() })
		return w
	}
	ask("GET", "/endless", nil) // and is not read
	half, writer := io.Pipe()
	go func() { _, _ = io.WriteString(writer, "half") }()
	if w := ask("POST", "/body", half); w.StatusCode != http.StatusRequestTimeout {
		t.Errorf("half a body: %d", w.StatusCode)
	}
	ask("GET", "/endless", nil) // has the second connection
	for range 3 {
		w := ask("POST", "/body", strings.NewReader("body"))
		if got, err := io.ReadAll(w.Body); w.StatusCode != 200 || string(got) != "4 <nil>" {
			t.Errorf("beside the stuck: %d %s %v", w.StatusCode, got, err)
		}
	}
}

// TestIdleIsNotStuck: a stream, a websocket, a conversation and a connection that is
// kept may all be silent for longer.
func TestIdleIsNotStuck(t *testing.T) {
	t.Run("a stream", func(t *testing.T) {
		t.Parallel()
		b, talk := stuckBench(t)
		_, reader := raw(t, b, "GET /talk HTTP/1.1", "Host: h")
		w, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(w.Body)
		for _, text := range []string{"one", "two"} {
			pass(t, b)
			talk <- text
			if line, err := lines.ReadString('\n'); err != nil || line != text+"\n" {
				t.Fatalf("%q %v", line, err)
			}
		}
	})
	t.Run("a websocket", func(t *testing.T) {
		t.Parallel()
		b, _ := stuckBench(t)
		conn, reader := raw(t, b, "GET /websocket HTTP/1.1", "Host: h", "Connection: Upgrade", "Upgrade: websocket")
		if w, err := http.ReadResponse(reader, nil); err != nil || w.StatusCode != 101 {
			t.Fatalf("%v %v", w, err)
		}
		for _, text := range []string{"one\n", "two\n"} {
			pass(t, b)
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if line, err := reader.ReadString('\n'); err != nil || line != text {
				t.Fatalf("%q %v", line, err)
			}
		}
	})
	t.Run("a conversation", func(t *testing.T) {
		t.Parallel()
		b, _ := stuckBench(t)
		up := newH2(t, func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%d %v", len(body), err)
		})
		door := newBenchAt(t, settings{options: Options{ProgressWithin: 500 * time.Millisecond}}, up)
		mine, writer := io.Pipe()
		defer writer.Close()
		r, err := http.NewRequestWithContext(t.Context(), "POST", door.url, mine)
		if err != nil {
			t.Fatal(err)
		}
		w, err := speaking(t, true).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		pass(t, b)
		if _, err := io.WriteString(writer, "late"); err != nil || writer.Close() != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(w.Body); err != nil || string(got) != "4 <nil>" {
			t.Errorf("%s %v", got, err)
		}
	})
	t.Run("a connection that is kept", func(t *testing.T) {
		t.Parallel()
		b, _ := stuckBench(t)
		conn, reader := raw(t, b, "POST /body HTTP/1.1", "Host: h", "Content-Length: 4", "", "bodyPOST /body HTTP/1.1", "Host: h", "Content-Length: 0")
		for i := range 4 {
			w, err := http.ReadResponse(reader, nil)
			if err != nil || w.StatusCode == 100 {
				t.Fatalf("%d: %v %v", i, w, err)
			}
			if _, err := io.ReadAll(w.Body); err != nil || w.StatusCode != 200 {
				t.Fatalf("%d: %d %v", i, w.StatusCode, err)
			}
			if i == 0 || i == 3 { // the second was sent with the first
				continue
			}
			pass(t, b)
			if _, err := io.WriteString(conn, "POST /body HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
				t.Fatalf("%q %v", line, err)
			}
			if _, err := reader.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "body"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSlowIsNotStuck: who takes and sends a little at a time is served to the end.
func TestSlowIsNotStuck(t *testing.T) {
	b, _ := stuckBench(t)
	var sent sync.WaitGroup
	body, writer := io.Pipe()
	sent.Go(func() {
		for range 10 { // all of it takes twice as long as a client may be stuck
			<-time.After(100 * time.Millisecond)
			if _, err := io.WriteString(writer, "part"); err != nil {
				t.Error(err)
			}
		}
		_ = writer.Close()
	})
	if w, got := b.do(t, "POST", "/body", body); w.StatusCode != 200 || got != "40 <nil>" {
		t.Errorf("%d %s", w.StatusCode, got)
	}
	sent.Wait()
}
