package daemon

import (
	"context"
	"log/slog"
	"net"
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

// TestAShortTokenIsWarnedOf: on loopback it opens the door, and the log says that
// it is short and not what it is.
func TestAShortTokenIsWarnedOf(t *testing.T) {
	for token, warns := range map[string]bool{"s3cret": true, strings.Repeat("x", shortToken): false} {
		var log lockedBuffer
		err := Run(t.Context(), Config{
			Log: slog.New(slog.NewTextHandler(&log, nil)), Doors: []Door{Admin(Listen{Address: "127.0.0.1:0", Token: token})},
			Beside: func(context.Context, map[string]net.Addr) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "the token is short") != warns || strings.Contains(log.String(), token) {
			t.Errorf("a token of %d characters: %s", len(token), log.String())
		}
	}
}
