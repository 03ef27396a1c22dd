package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestClaimsInTrailers: servers that put trailers among the headers exist, and a client
// that nobody trusts must not say behind its body what it may not say before it.
func TestClaimsInTrailers(t *testing.T) {
	for _, trusted := range []string{"", "127.0.0.0/8"} {
		got := make(chan http.Header, 1)
		b := newBench(t, settings{trusted: trusted}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			got <- r.Trailer.Clone()
		})
		_, reader := raw(t, b, "POST / HTTP/1.1", "Host: h", "Connection: close", "Transfer-Encoding: chunked",
			"Trailer: X-Real-IP, Checksum, X-User, X_Forwarded_For", "", "1", "a", "0",
			"X-Real-IP: 192.0.2.1", "Checksum: c", "X-User: root", "X_Forwarded_For: 192.0.2.1")
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		h := <-got
		if h.Get("Checksum") != "c" {
			t.Errorf("trusted %q: another trailer is gone: %v", trusted, h)
		}
		for _, name := range []string{"X-Real-Ip", "X-User", "X_forwarded_for"} {
			if told := h.Get(name); (told != "") != (trusted != "") {
				t.Errorf("trusted %q: %s is %q", trusted, name, told)
			}
		}
	}
}
