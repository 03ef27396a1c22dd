package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func TestLoopback(t *testing.T) {
	door := Loopback(http.HandlerFunc(ok))
	for _, c := range []struct {
		name, method, host string
		header             []string
		status             int
	}{
		{"an address", "POST", "127.0.0.1:8080", nil, 200},
		{"another of the block", "POST", "127.9.9.9", nil, 200},
		{"IPv6", "POST", "[::1]:8080", nil, 200},
		{"IPv6 without port", "POST", "[::1]", nil, 200},
		{"a name", "POST", "LocalHost:8080", nil, 200},
		{"a name below it", "POST", "weir.localhost", nil, 200},
		{"a name with a dot", "POST", "localhost.", nil, 200},
		{"a stranger's name", "POST", "evil.example:8080", nil, 403},
		{"a name that begins well", "POST", "127.0.0.1.evil.example", nil, 403},
		{"a name that ends nearly well", "POST", "evillocalhost", nil, 403},
		{"another address", "POST", "192.0.2.1:8080", nil, 403},
		{"everything's address", "POST", "0.0.0.0:8080", nil, 403},
		{"no name", "POST", "", nil, 403},
		{"the door's own page", "POST", "localhost:8080", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"typed by hand", "GET", "localhost:8080", []string{"Sec-Fetch-Site", "none"}, 200},
		{"another site", "POST", "localhost:8080", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another site, only reading", "GET", "localhost:8080", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", "POST", "localhost:8080", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"an old browser, another site", "POST", "localhost:8080", []string{"Origin", "http://evil.example"}, 403},
		{"an old browser, this site", "POST", "localhost:8080", []string{"Origin", "http://localhost:8080"}, 200},
		{"a sandbox", "POST", "localhost:8080", []string{"Origin", "null"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "/v1/take", nil)
			r.Host = c.host
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := httptest.NewRecorder()
			if door.ServeHTTP(w, r); w.Code != c.status {
				t.Errorf("%d, not %d: %s", w.Code, c.status, w.Body)
			}
		})
	}
}
