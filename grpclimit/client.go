package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// ClientOptions configures NewClient.
type ClientOptions struct {
	// Limiter and Charges are our own limit on what we call: a call waits until
	// its charges fit. No charges mean no wait. Without them a Client only obeys
	// the server.
	Limiter *weir.Limiter
	Charges func(ctx context.Context, method string) []weir.Charge
	// MaxWait is the longest a call is held back, by us and by the server
	// together; 0 for a minute. One that would be held longer, or past its
	// deadline, fails at once with RESOURCE_EXHAUSTED and is not sent.
	MaxWait time.Duration
	// Destination names who counts our calls, so that a refusal holds back what
	// goes to the same; nil for the target of the connection.
	Destination func(cc *grpc.ClientConn, method string) string
}

// Client is a pair of client interceptors. It does not retry: that is what a
// retry policy in gRPC's service config is for, and it obeys the pushback. It is
// safe for concurrent use.
type Client struct {
	ClientOptions
	holds headers.Holds
}

// NewClient returns a Client, or an error that names the option that is wrong.
func NewClient(o ClientOptions) (*Client, error) {
	switch {
	case (o.Limiter == nil) != (o.Charges == nil):
		return nil, errors.New("grpclimit: Limiter and Charges go together")
	case o.MaxWait < 0:
		return nil, errors.New("grpclimit: MaxWait is negative")
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.Destination == nil {
		o.Destination = func(cc *grpc.ClientConn, _ string) string { return cc.CanonicalTarget() }
	}
	return &Client{ClientOptions: o}, nil
}

// Unary implements grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, options ...grpc.CallOption) error {
	to := c.Destination(cc, method)
	if err := c.wait(ctx, method, to); err != nil {
		return err
	}
	var trailer metadata.MD
	err := next(ctx, method, request, reply, cc, append(options[:len(options):len(options)], grpc.Trailer(&trailer))...)
	c.heed(to, err, trailer)
	return err
}

// Stream implements grpc.StreamClientInterceptor. Opening the stream waits; its
// messages do not.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	to := c.Destination(cc, method)
	if err := c.wait(ctx, method, to); err != nil {
		return nil, err
	}
	s, err := next(ctx, desc, cc, method, options...)
	if err != nil {
		c.heed(to, err, nil)
		return nil, err
	}
	return &clientStream{s, c, to}, nil
}

// clientStream looks at how a stream ends.
type clientStream struct {
	grpc.ClientStream
	client *Client
	to     string
}

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.client.heed(s.to, err, s.Trailer())
	}
	return err
}

// wait holds a call back until the server and our limit let it go. The server is
// looked at again afterwards: while our limit held the call back, another answer
// may have asked for quiet.
func (c *Client) wait(ctx context.Context, method, to string) error {
	within, cancel := context.WithTimeout(ctx, c.MaxWait)
	defer cancel()
	if err := c.sitOut(ctx, within, to); err != nil {
		return err
	}
	if c.Limiter == nil {
		return nil
	}
	bill := weir.Bill{Charges: c.Charges(ctx, method)}
	if len(bill.Charges) == 0 {
		return nil
	}
	err := c.Limiter.WaitBill(within, &bill)
	switch {
	case ctx.Err() != nil:
		err = status.FromContextError(ctx.Err()).Err()
	case err != nil && within.Err() == nil:
		err = undecided(err)
	case err != nil || !bill.Allowed: // who is let through just at the end of its time is let through
		err = held("our own limit", bill.RetryAfter)
	default:
		err = c.sitOut(ctx, within, to)
	}
	if err == nil {
		return nil
	}
	if undone := c.Limiter.Undo(ctx, &bill); undone != nil { // who is not sent has used nothing
		return errors.Join(err, undone)
	}
	return err
}

// sitOut waits until the server's quiet is over.
func (c *Client) sitOut(ctx, within context.Context, to string) error {
	for {
		if ctx.Err() != nil {
			return status.FromContextError(ctx.Err()).Err()
		}
		left := c.holds.Left(to, time.Now())
		if left <= 0 {
			return nil
		}
		if deadline, ok := within.Deadline(); ok && time.Now().Add(left).After(deadline) {
			return held("the server", left)
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-within.Done():
			timer.Stop()
			if ctx.Err() == nil {
				return held("the server", left)
			}
		}
	}
}

// held is the status of a call that was not sent.
func held(who string, d time.Duration) error {
	if d == weir.Never {
		return status.Error(codes.ResourceExhausted, "not sent: "+who+" can never admit this call")
	}
	return status.Error(codes.ResourceExhausted, fmt.Sprintf("not sent: %s holds the call back for longer than it may wait; try again in %v", who, d))
}

// heed notes how long a refusal asks for quiet: as its RetryInfo says, else its
// pushback. What is to be never retried asks for none: other calls may do.
func (c *Client) heed(to string, err error, trailer metadata.MD) {
	s := status.Convert(err)
	if code := s.Code(); code != codes.ResourceExhausted && code != codes.Unavailable {
		return
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			c.holds.Add(to, time.Now(), info.GetRetryDelay().AsDuration())
			return
		}
	}
	if values := trailer[Pushback]; len(values) == 1 {
		if ms, err := strconv.ParseInt(values[0], 10, 32); err == nil && ms > 0 {
			c.holds.Add(to, time.Now(), time.Duration(ms)*time.Millisecond)
		}
	}
}
