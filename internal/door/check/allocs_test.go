//go:build !race

package check

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestFewAllocations: a take allocates little beside what net/http does. The race
// detector makes pools forget, so this is not for it.
func TestFewAllocations(t *testing.T) {
	door := newBench(t, nil, nil).door
	r, err := http.NewRequest(http.MethodPost, "/v1/take", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w := discard{http.Header{}}
	n := testing.AllocsPerRun(1000, func() {
		clear(w.header)
		r.Body = io.NopCloser(strings.NewReader(`{"key":"user:42","limit":"1000000/s","cost":1}`))
		door.ServeHTTP(w, r)
	})
	const most = 6 // two of them are the test's own body
	if n > most {
		t.Errorf("%v allocations, over %d", n, most)
	}
}
