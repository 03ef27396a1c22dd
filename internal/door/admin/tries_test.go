package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestTriesOfANetwork: who has a /64 has as many addresses as there are tokens.
func TestTriesOfANetwork(t *testing.T) {
	h, err := Login("a-token-that-is-long", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range 20 {
		r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"token": {"wrong"}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = fmt.Sprintf("[2001:db8:1:2::%x]:4000", i+1)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("twenty addresses of one network may all try")
	}
}
