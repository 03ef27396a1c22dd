package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestInterimAnswers: what an upstream says before its answer reaches clients that
// know of such, and no others: to HTTP/1.0 it would be the answer.
func TestInterimAnswers(t *testing.T) {
	b := newBench(t, settings{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "answer")
	})
	for version, want := range map[string]string{"1.0": "200 OK", "1.1": "103 Early Hints"} {
		_, reader := raw(t, b, "GET / HTTP/"+version, "Host: h", "Connection: close")
		line, err := reader.ReadString('\n')
		if err != nil || !strings.HasSuffix(strings.TrimSpace(line), want) {
			t.Errorf("HTTP/%s: %q, %v", version, line, err)
		}
		rest, err := io.ReadAll(reader)
		if err != nil || !strings.HasSuffix(string(rest), "answer") || version == "1.0" && strings.Contains(string(rest), "preload") {
			t.Errorf("HTTP/%s: %q, %v", version, rest, err)
		}
	}
}
