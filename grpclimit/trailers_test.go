package grpclimit

import (
	"context"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// TestTrailersOfAStream: a stream has one end, which tells how things stand then, once.
func TestTrailersOfAStream(t *testing.T) {
	o := rules(Everyone(), weir.Per(4, time.Hour))
	o.Messages = true
	s := serve(t, limit(t, limiter(t, nil), o))
	for _, c := range []struct {
		messages  int
		code      codes.Code
		remaining string
	}{{1, codes.OK, "2"}, {5, codes.ResourceExhausted, "0"}} {
		stream, err := s.FullDuplexCall(context.Background())
		must(t, err)
		for range c.messages {
			if err = stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
				break
			}
			if _, err = stream.Recv(); err != nil {
				break
			}
		}
		must(t, stream.CloseSend())
		for err == nil {
			_, err = stream.Recv()
		}
		got := stream.Trailer()
		if status.Code(err) != c.code && c.code != codes.OK {
			t.Errorf("%d messages: %v", c.messages, err)
		}
		for _, name := range []string{"ratelimit-remaining", "ratelimit-limit", "ratelimit"} {
			if len(got[name]) != 1 {
				t.Errorf("%d messages: %s is %q", c.messages, name, got[name])
			}
		}
		if r := got["ratelimit-remaining"]; len(r) > 0 && r[len(r)-1] != c.remaining {
			t.Errorf("%d messages: %s remain, not %s", c.messages, r, c.remaining)
		}
	}
}

// TestStatusOfHTTP: the status that refusals have over HTTP says nothing here.
func TestStatusOfHTTP(t *testing.T) {
	o := rules(Everyone(), weir.Per(1, time.Hour))
	o.Headers = headers.Options{Denied: &headers.Body{Status: http.StatusForbidden}}
	s := serve(t, limit(t, limiter(t, nil), o))
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		if e := s.call(context.Background()); e.code != want {
			t.Errorf("%v, not %v", e.code, want)
		}
	}
}
