package grpclimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/weirhq/weir"
)

// A call that fits just to the end of MaxWait was charged for, and is sent.
func TestClientSendsWhatFitsJustInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := weir.New(weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := NewClient(ClientOptions{
			Limiter: l, MaxWait: time.Second,
			Charges:     func(context.Context, string) []weir.Charge { return []weir.Charge{weir.PerSecond(1).Charge("server")} },
			Destination: func(*grpc.ClientConn, string) string { return "server" },
		})
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		send := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			sent++
			return nil
		}
		for range 5 {
			if err := c.Unary(context.Background(), "/s/m", nil, nil, nil, send); err != nil {
				t.Errorf("after %d: %v", sent, err)
			}
		}
	})
}
