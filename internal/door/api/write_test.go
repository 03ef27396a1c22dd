package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir"
)

// TestFailSaysWhatIsKnown: what the store may still do is not said to be undone.
func TestFailSaysWhatIsKnown(t *testing.T) {
	for unknown, want := range map[bool]string{
		true:  "the store did not answer (timeout): it may or may not have been done",
		false: "the store did not do it: timeout",
	} {
		w := httptest.NewRecorder()
		Fail(w, &weir.StoreError{Kind: "timeout", Unknown: unknown})
		if w.Code != 503 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
}
