package proxy

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestHalfClosed: a client may end its side of a connection and still listen. For
// net/http it is gone, and a handler that says nothing lets it be told 200.
func TestHalfClosed(t *testing.T) {
	for name, s := range map[string]settings{
		"at the upstream": {},
		"held back":       {limit: "1/20s algorithm=leaky_bucket burst=1"},
	} {
		t.Run(name, func(t *testing.T) {
			reached := make(chan struct{}, 2)
			b := newBench(t, s, func(_ http.ResponseWriter, r *http.Request) {
				reached <- struct{}{}
				if r.URL.Path == "/slow" {
					<-r.Context().Done()
				}
			})
			if s.limit != "" {
				b.do(t, "GET", "/", nil)
			}
			conn, reader := raw(t, b, "GET /slow HTTP/1.1", "Host: h")
			if s.limit == "" {
				<-reached
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			line, err := reader.ReadString('\n')
			if err == nil && !strings.Contains(line, " 503 ") {
				t.Errorf("%q", line)
			}
		})
	}
}
