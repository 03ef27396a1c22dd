package headers

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/weirhq/weir"
)

// TestTheRefusalIsNamed: a refusal's ID is in a field and in the body, and what
// is admitted shows none.
func TestTheRefusalIsNamed(t *testing.T) {
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := weir.Bill{Decision: weir.Decision{Reason: weir.Blocked, RetryAfter: weir.Never}}
	b.GiveID()
	a := f.Answer(&b, nil)
	h := http.Header{}
	a.Write(h)
	if got := h.Get("Weir-Decision"); got != b.IDText() || len(got) != 32 || strings.Trim(got, "0123456789abcdef") != "" {
		t.Errorf("Weir-Decision: %q, want %q", got, b.IDText())
	}
	var problem struct{ Decision string }
	_, body := a.Body()
	if err := json.Unmarshal(body, &problem); err != nil || problem.Decision != b.IDText() {
		t.Errorf("body %s (%v)", body, err)
	}
	b.Allowed, b.ID = true, [16]byte{}
	h = http.Header{}
	a = f.Answer(&b, nil)
	a.Write(h)
	if got, ok := h["Weir-Decision"]; ok {
		t.Errorf("admitted, and Weir-Decision: %q", got)
	}
}
