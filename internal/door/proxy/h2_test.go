package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newH2 starts an upstream that speaks HTTP/2 without TLS and nothing else.
func newH2(t *testing.T, upstream http.HandlerFunc) string {
	t.Helper()
	up := httptest.NewUnstartedServer(upstream)
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)
	return "h2c://" + strings.TrimPrefix(up.URL, "http://")
}

// speaking returns what speaks HTTP/2 without TLS, or HTTP/1.1.
func speaking(t *testing.T, h2 bool) *http.Transport {
	c := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	c.Protocols.SetHTTP1(!h2)
	c.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// TestBothVersions: a conversation, in HTTP/2 part by part in both directions, with
// trailers that arrive as they were sent, in each pair of versions. The last
// trailer is announced by nobody, as gRPC does.
func TestBothVersions(t *testing.T) {
	converse := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex() // HTTP/2 needs and knows it not
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Version", r.Proto)
		for part := make([]byte, 5); ; {
			if _, err := io.ReadFull(r.Body, part); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			if _, err := w.Write(part); err != nil || control.Flush() != nil {
				t.Error("writing failed", err)
			}
		}
		w.Header().Set("X-Sum", r.Trailer.Get("X-Up"))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
	one := httptest.NewServer(http.HandlerFunc(converse))
	defer one.Close()
	const odd = "a  b;\tc=\"d\", \xe9" // no byte of it is changed
	for _, c := range []struct {
		name, upstream, version string
		h2                      bool
	}{
		{"1.1 to 2", newH2(t, converse), "HTTP/2.0", false}, {"2 to 1.1", one.URL, "HTTP/1.1", true}, {"2 to 2", newH2(t, converse), "HTTP/2.0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBenchAt(t, settings{limit: "9/h"}, c.upstream)
			body, writer := io.Pipe()
			r, err := http.NewRequestWithContext(t.Context(), "POST", b.url, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Te", "trailers")
			r.Trailer = http.Header{"X-Up": nil}
			parts := []string{"first", "again", "third"}
			if !c.h2 { // which is answered when it has been sent
				go func() {
					_, _ = io.WriteString(writer, strings.Join(parts, ""))
					r.Trailer.Set("X-Up", odd) // the transport has read what it reads before the body
					_ = writer.Close()
				}()
			} else {
				go func() { _, _ = io.WriteString(writer, parts[0]) }()
			}
			w, err := speaking(t, c.h2).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Body.Close()
			for i, want := range parts {
				got := make([]byte, len(want))
				if _, err := io.ReadFull(w.Body, got); err != nil || string(got) != want {
					t.Fatalf("%q %v, not %q", got, err, want)
				}
				if c.h2 && i+1 < len(parts) {
					if _, err := io.WriteString(writer, parts[i+1]); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.h2 {
				r.Trailer.Set("X-Up", odd)
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(w.Body); err != nil || len(rest) > 0 {
				t.Errorf("%q %v", rest, err)
			}
			if w.Header.Get("X-Version") != c.version || w.Header.Get("RateLimit-Remaining") != "8" {
				t.Errorf("%v", w.Header)
			}
			if got := w.Trailer.Get("X-Sum"); got != odd {
				t.Errorf("the trailer is %q, not %q", got, odd)
			}
			if got := w.Trailer.Get("Grpc-Status"); got != "0" {
				t.Errorf("an unannounced trailer: %q, of %v", got, w.Trailer)
			}
		})
	}
}

// TestDeniedInH2: a refusal is the same in HTTP/2.
func TestDeniedInH2(t *testing.T) {
	b := newBenchAt(t, settings{limit: "0/h"}, newH2(t, func(http.ResponseWriter, *http.Request) { t.Error("reached") }))
	r, err := http.NewRequestWithContext(t.Context(), "POST", b.url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := speaking(t, true).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(w.Body)
	if err := errors.Join(err, w.Body.Close()); err != nil || w.StatusCode != 429 || !strings.Contains(string(text), "quota-exceeded") {
		t.Errorf("%s %v", fmt.Sprint(w.StatusCode, string(text)), err)
	}
}
