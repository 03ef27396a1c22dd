package cli

import (
	"strings"
	"testing"
)

// TestErrorsHoldNoPassword: neither an address that nobody answers at nor one that
// cannot be read is shown with its password.
func TestErrorsHoldNoPassword(t *testing.T) {
	for _, addr := range []string{"http://user:pass-word@127.0.0.1:1", "http://user:pass-word@127.0.0.1:port", "http://user:pass-word%zz@host", "ftp://user:pass-word@host", "user:pass-word@host", "http://user:pass-word@[::1"} {
		text := ""
		c, err := newClient(addr, "", "")
		if err == nil {
			err = c.get(t.Context(), "/", new(any))
		}
		if err != nil {
			text = err.Error()
		}
		if text == "" || strings.Contains(text, "pass-word") || !strings.Contains(text, "xxxxx") {
			t.Errorf("%s: %q", addr, text)
		}
	}
}
