package proxy

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirhq/weir/identity"
)

// TestForwardedOverUnix: a proxy in front that is trusted and speaks over a unix socket
// has no address to add, and what it says of its client is passed on all the same.
func TestForwardedOverUnix(t *testing.T) {
	got := make(chan http.Header, 1)
	b := newBench(t, settings{}, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Clone() })
	for trust, want := range map[bool]string{true: "192.0.2.9, 203.0.113.7", false: ""} {
		resolver, err := identity.NewResolver(identity.Config{ClientIP: identity.ClientIP{TrustUnix: trust}})
		if err != nil {
			t.Fatal(err)
		}
		b.door.Gate.Swap(resolver, b.door.Gate.Policy())
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "@"
		r.Header["X-Forwarded-For"] = []string{"192.0.2.9", "203.0.113.7"}
		w := httptest.NewRecorder()
		b.door.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		if chain := (<-got).Get("X-Forwarded-For"); chain != want {
			t.Errorf("trusted %v: %q, not %q", trust, chain, want)
		}
	}
}
