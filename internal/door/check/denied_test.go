package check

import (
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// TestDeniedIsForOthers: the policy's own status for refusals is for those who are
// refused, not for who asks this door whether to refuse.
func TestDeniedIsForOthers(t *testing.T) {
	format, err := headers.New(headers.Options{Denied: &headers.Body{Status: 503}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{})})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &bench{door: New(Options{Limiter: l, Format: func() *headers.Format { return format }})}
	if w := b.post("/v1/take", `{"key":"a","limit":"0/min"}`); w.Code != 429 || !strings.Contains(w.Body.String(), `"allowed":false`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
