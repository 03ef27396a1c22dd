package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
)

// TestBlockOfNoBalance: what is unlimited cannot be blocked, and is not said to be.
func TestBlockOfNoBalance(t *testing.T) {
	l, err := weir.New(weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := New(Options{Limiter: l, Gate: gate.New(l, nil, nil), Log: slog.New(slog.DiscardHandler)})
	for limit, status := range map[string]int{"unlimited": http.StatusBadRequest, "5/min": http.StatusOK} {
		r := httptest.NewRequest("POST", "/v1/block", strings.NewReader(`{"key":"a","limit":"`+limit+`","for":"1m"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%s: %d %s", limit, w.Code, w.Body)
		}
	}
}
