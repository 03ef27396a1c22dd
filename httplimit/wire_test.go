package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/httplimit"
)

// These tests speak real HTTP/1.1 and HTTP/2 over loopback: what a handler can
// do with its ResponseWriter it can do behind the middleware.

// wires are the protocols, each a started server and a client of it.
var wires = []struct {
	name  string
	proto int
	serve func(t *testing.T, h http.Handler) (*httptest.Server, *http.Client)
}{
	{"http/1.1", 1, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Client) {
		s := httptest.NewServer(h)
		return s, s.Client()
	}},
	{"h2", 2, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Client) {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		s.StartTLS()
		return s, s.Client()
	}},
	{"h2c", 2, func(t *testing.T, h http.Handler) (*httptest.Server, *http.Client) {
		s := httptest.NewUnstartedServer(h)
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		s.Config.Protocols = &protocols
		s.Start()
		return s, &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	}},
}

// limited puts h behind a middleware that admits plenty.
func limited(t *testing.T, h http.HandlerFunc) http.Handler {
	return httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "100/min name=wire"))(h)
}

// onEachWire runs test against h on every protocol.
func onEachWire(t *testing.T, h func(t *testing.T) http.Handler, test func(t *testing.T, proto int, url string, c *http.Client)) {
	for _, wire := range wires {
		t.Run(wire.name, func(t *testing.T) {
			var serving sync.WaitGroup
			handler := h(t)
			s, c := wire.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				serving.Add(1)
				defer serving.Done()
				handler.ServeHTTP(w, r)
			}))
			defer serving.Wait() // the server does not, for HTTP/2 in the clear
			defer s.Close()
			c.Timeout = 20 * time.Second
			test(t, wire.proto, s.URL, c)
		})
	}
}

func fetch(t *testing.T, c *http.Client, method, url string, body io.Reader) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The handler gets the very writer that the server made, with all it can do.
func TestTheWriterIsNotWrapped(t *testing.T) {
	var inside, outside http.ResponseWriter
	onEachWire(t, func(t *testing.T) http.Handler {
		inner := limited(t, func(w http.ResponseWriter, r *http.Request) { inside = w })
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { outside = w; inner.ServeHTTP(w, r) })
	}, func(t *testing.T, proto int, url string, c *http.Client) {
		res := fetch(t, c, "GET", url, nil)
		read(t, res)
		if res.ProtoMajor != proto || res.Header.Get("RateLimit") != `"wire";r=99;t=1` {
			t.Errorf("HTTP/%d, %v", res.ProtoMajor, res.Header)
		}
		if inside == nil || inside != outside {
			t.Errorf("the handler got a %v, the server made a %v", reflect.TypeOf(inside), reflect.TypeOf(outside))
		}
		if _, ok := inside.(http.Flusher); !ok {
			t.Error("no Flusher")
		}
		if _, ok := inside.(http.Pusher); ok != (proto == 2) {
			t.Errorf("a Pusher: %v", ok)
		}
		if _, ok := inside.(io.ReaderFrom); ok != (proto == 1) {
			t.Errorf("a ReaderFrom: %v", ok)
		}
	})
}

// The first event is read before the second is written.
func TestServerSentEvents(t *testing.T) {
	next := make(chan struct{})
	onEachWire(t, func(t *testing.T) http.Handler {
		return limited(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			control := http.NewResponseController(w)
			for n := range 2 {
				if n > 0 {
					<-next
				}
				if _, err := fmt.Fprintf(w, "data: %d\n\n", n); err != nil {
					t.Error(err)
				}
				if err := control.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
	}, func(t *testing.T, proto int, url string, c *http.Client) {
		res := fetch(t, c, "GET", url, nil)
		defer res.Body.Close()
		lines := bufio.NewReader(res.Body)
		for n := range 2 {
			if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", n) {
				t.Fatalf("event %d: %q %v", n, line, err)
			}
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				next <- struct{}{}
			}
		}
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 { // who hangs up breaks the last flush off
			t.Errorf("after both events: %q %v", rest, err)
		}
	})
}

func TestTrailersAndInformationalAnswers(t *testing.T) {
	onEachWire(t, func(t *testing.T) http.Handler {
		return limited(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusCreated)
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Error(err)
			}
			w.Header().Set("X-Sum", "42")
			w.Header().Set(http.TrailerPrefix+"X-Late", "43")
		})
	}, func(t *testing.T, proto int, url string, c *http.Client) {
		var hints []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, code)
				if h.Get("Link") == "" {
					t.Errorf("hints without their link: %v", h)
				}
				return nil
			},
		})
		body := strings.Repeat("weir ", 100_000)
		r, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, res); got != body {
			t.Errorf("%d bytes came back, %d were sent", len(got), len(body))
		}
		if len(hints) != 1 || hints[0] != 103 || res.StatusCode != 201 {
			t.Errorf("1xx %v, status %d", hints, res.StatusCode)
		}
		if res.Trailer.Get("X-Sum") != "42" || res.Trailer.Get("X-Late") != "43" {
			t.Errorf("trailers %v", res.Trailer)
		}
		for name := range res.Trailer {
			if strings.HasPrefix(name, "Ratelimit") {
				t.Errorf("%s is in the trailer", name)
			}
		}
	})
}

// B249: a websocket-like upgrade: hijack, then both sides speak freely.
func TestHijack(t *testing.T) {
	s := httptest.NewServer(limited(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
			t.Error(err)
		}
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := rw.WriteString("echo " + line); err != nil {
				t.Error(err)
			}
			if err := rw.Flush(); err != nil {
				t.Error(err)
			}
		}
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\none\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	for _, word := range []string{"one", "two"} {
		if line, err := in.ReadString('\n'); err != nil || line != "echo "+word+"\n" {
			t.Fatalf("%q %v", line, err)
		}
		if word == "one" {
			if _, err := io.WriteString(conn, "two\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What http.ResponseController offers works; a full-duplex handler answers
// before its body has come whole.
func TestResponseController(t *testing.T) {
	onEachWire(t, func(t *testing.T) http.Handler {
		return limited(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			for name, err := range map[string]error{
				"SetReadDeadline": control.SetReadDeadline(time.Now().Add(time.Minute)), "SetWriteDeadline": control.SetWriteDeadline(time.Now().Add(time.Minute)),
				"EnableFullDuplex": control.EnableFullDuplex(), "Flush": control.Flush(),
			} {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := io.Copy(w, r.Body); err != nil {
				t.Error(err)
			}
		})
	}, func(t *testing.T, proto int, url string, c *http.Client) {
		from, to := io.Pipe()
		res := fetch(t, c, "POST", url, from) // returns, though no byte of the body is sent
		if _, err := to.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		to.Close()
		if got := read(t, res); got != "late" {
			t.Errorf("%q", got)
		}
	})
}

// B247: the status and the fields of a refusal come before its body; a HEAD gets
// no body; the connection goes on.
func TestRefusalOnTheWire(t *testing.T) {
	onEachWire(t, func(t *testing.T) http.Handler {
		return httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "0/min"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the handler ran")
		}))
	}, func(t *testing.T, proto int, url string, c *http.Client) {
		for _, method := range []string{"GET", "HEAD", "POST", "GET"} {
			res := fetch(t, c, method, url, nil)
			body := read(t, res)
			if res.StatusCode != 429 || res.Header.Get("RateLimit-Limit") != "0" || res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %v", method, res.StatusCode, res.Header)
			}
			if (body == "") != (method == "HEAD") {
				t.Errorf("%s: body %q", method, body)
			}
			if method != "HEAD" && res.ContentLength != int64(len(body)) {
				t.Errorf("%s: length %d of a body of %d", method, res.ContentLength, len(body))
			}
		}
	})
}

// A refusal answers Expect: 100-continue itself: the body is never asked for.
func TestRefusalBeforeTheBody(t *testing.T) {
	s := httptest.NewServer(httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "0/min"))(nothing))
	defer s.Close()
	continued := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { continued = true }})
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL, bytes.NewReader(make([]byte, 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Expect", "100-continue")
	c := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 20 * time.Second}}
	defer c.CloseIdleConnections()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	read(t, res)
	if res.StatusCode != 429 || continued {
		t.Errorf("status %d, asked for the body: %v", res.StatusCode, continued)
	}
}

// Over a unix socket the peer has no address; the proxy in front names the client.
func TestUnixSocket(t *testing.T) {
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(limited(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(w, keyOf(r)); err != nil {
			t.Error(err)
		}
	}))
	s.Listener.Close()
	s.Listener = listener
	s.Start()
	defer s.Close()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer c.CloseIdleConnections()
	res := fetch(t, c, "GET", "http://weir/", nil)
	if body := read(t, res); res.StatusCode != 200 || body != "no key" || res.Header.Get("RateLimit-Remaining") != "99" {
		t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
	}
}

func keyOf(r *http.Request) string {
	if k := httplimit.ByIP()(r); k != "" {
		return k
	}
	return "no key"
}
