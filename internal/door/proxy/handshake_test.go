package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestAHandshakeThatHangsIsGivenUp: an upstream that takes the connection and says
// nothing costs its caller handshakeWithin, and the connection is closed.
func TestAHandshakeThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		began := time.Now()
		_, err := handshake(context.Background(), ours, &tls.Config{}, "upstream.example:443")
		var failed *handshakeError
		if !errors.As(err, &failed) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != handshakeWithin {
			t.Errorf("given up after %v", took)
		}
		if _, err := ours.Write([]byte("x")); err == nil {
			t.Error("the connection is open")
		}
	})
}
