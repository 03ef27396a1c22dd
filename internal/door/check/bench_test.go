package check

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header             { return d.header }
func (d discard) WriteHeader(int)                 {}
func (d discard) Write(p []byte) (n int, _ error) { return len(p), nil }

// BenchmarkTake is what the door adds to net/http: reading, deciding, writing.
func BenchmarkTake(b *testing.B) {
	door := newBench(b, nil, nil).door
	const body = `{"key":"user:42","limit":"1000000/s","cost":1}`
	r, err := http.NewRequest("POST", "/v1/take", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w := discard{http.Header{}}
	for b.Loop() {
		clear(w.header)
		r.Body = io.NopCloser(strings.NewReader(body))
		door.ServeHTTP(w, r)
	}
}
