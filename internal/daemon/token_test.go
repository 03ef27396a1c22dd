package daemon

import (
	"strings"
	"testing"
)

// TestShortTokens: off loopback a token that could be guessed opens no door.
func TestShortTokens(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0:8082": "fewer than 16 characters", "127.0.0.1:8082": "", "unix:/run/weir.sock": ""} {
		short := Listen{Address: address, Token: "s3cret", NeedsToken: true}
		if err := short.check("admin"); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
		long := Listen{Address: address, Token: strings.Repeat("x", 16), NeedsToken: true}
		if err := long.check("admin"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
