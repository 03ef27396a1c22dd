package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
)

// TransportOptions configures NewTransport.
type TransportOptions struct {
	// Base sends the requests; nil for http.DefaultTransport.
	Base http.RoundTripper
	// Limiter and Charges are our own limit on what we send: a request waits
	// until its charges fit. Without them a Transport only obeys the upstream.
	Limiter *weir.Limiter
	Charges func(*http.Request) []weir.Charge

	// MaxWait is the longest a request is held back, by us and by the upstream
	// together, retries included; 0 for a minute. It counts from when the request
	// comes, with what the upstream's refusals took. One that would be held longer,
	// or past the deadline of its context, fails at once with a *HeldError and is not
	// sent.
	MaxWait time.Duration
	// Retries is how often a request that the upstream refused with a 429 or 503
	// that says for how long is sent again when that is over. 0 hands refusals to
	// the caller; the requests after it are held back all the same. A request is
	// sent again only if it may wait so long and its body can be sent twice (see
	// http.Request.GetBody), and after a 503 only if its method is idempotent.
	Retries int
	// Destination names who counts our requests, so that a refusal holds back
	// what goes to the same; nil for scheme and host of the URL.
	Destination func(*http.Request) string
}

// Transport is an http.RoundTripper that sends no faster than our limit allows,
// and nothing while the upstream asks for quiet: by Retry-After on a refusal, or
// by RateLimit fields that say that nothing is left (see headers.Hold). After a day
// it asks again, whatever it was told. Waiting ends with the request's context. It is
// safe for concurrent use.
type Transport struct {
	TransportOptions
	holds headers.Holds
}

// NewTransport returns a Transport, or an error that names the option that is
// wrong.
func NewTransport(o TransportOptions) (*Transport, error) {
	switch {
	case (o.Limiter == nil) != (o.Charges == nil):
		return nil, errors.New("httplimit: Limiter and Charges go together")
	case o.MaxWait < 0:
		return nil, errors.New("httplimit: MaxWait is negative")
	case o.Retries < 0:
		return nil, errors.New("httplimit: Retries is negative")
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.Destination == nil {
		o.Destination = func(r *http.Request) string { return r.URL.Scheme + "://" + r.URL.Host }
	}
	return &Transport{TransportOptions: o}, nil
}

// HeldError is why a request was not sent: it would have had to wait longer than
// it may. It holds no key.
type HeldError struct {
	Upstream bool          // the upstream asked for quiet; else our own limit
	For      time.Duration // when it is worth trying again; weir.Never if it never is
}

// Error says who holds the request back and for how long.
func (e *HeldError) Error() string {
	who := "our own limit"
	if e.Upstream {
		who = "the upstream"
	}
	if e.For == weir.Never {
		return "httplimit: " + who + " can never admit this request"
	}
	return fmt.Sprintf("httplimit: %s holds the request back for longer than it may wait; try again in %v", who, e.For)
}

// RoundTrip waits, sends and reads what the answer asks for.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	to, until := t.Destination(r), time.Now().Add(t.MaxWait)
	for try := 0; ; try++ {
		if err := t.wait(r, to, until); err != nil {
			closeBody(r)
			return nil, err
		}
		res, err := t.Base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		quiet := headers.Hold(res.StatusCode, res.Header, now)
		t.holds.Add(to, now, quiet)
		if try == t.Retries || quiet <= 0 || !refused(res, r) || !mayWait(r, now.Add(quiet), until) {
			return res, nil
		}
		again, err := rewind(r)
		if err != nil {
			return res, nil // cannot be sent again: the refusal is the answer
		}
		discard(res)
		r = again
	}
}

// mayWait reports whether r, which waits no longer than until, may be held back
// to end.
func mayWait(r *http.Request, end, until time.Time) bool {
	deadline, ok := r.Context().Deadline()
	return !end.After(until) && (!ok || end.Before(deadline))
}

// wait holds r back until the upstream and our limit let it go, but not beyond
// the time until. Our limit is asked between two looks at the upstream: while it held
// r back, an answer to another request may have asked for quiet.
func (t *Transport) wait(r *http.Request, to string, until time.Time) error {
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	if err := t.sitOut(ctx, to); err != nil {
		return err
	}
	if t.Limiter == nil {
		return r.Context().Err()
	}
	bill := weir.Bill{Charges: t.Charges(r)}
	if len(bill.Charges) == 0 {
		return r.Context().Err()
	}
	err := t.Limiter.WaitBill(ctx, &bill)
	switch {
	case r.Context().Err() != nil:
		err = r.Context().Err()
	case err != nil && ctx.Err() != nil:
		err = &HeldError{For: bill.RetryAfter + bill.Delay}
	case err != nil:
	case !bill.Allowed:
		err = &HeldError{For: bill.RetryAfter}
	default:
		err = t.sitOut(ctx, to)
	}
	if err == nil {
		return nil
	}
	if undone := t.Limiter.Undo(ctx, &bill); undone != nil { // who is not sent has used nothing
		return errors.Join(err, undone)
	}
	return err
}

// sitOut waits until the upstream's quiet is over.
func (t *Transport) sitOut(ctx context.Context, to string) error {
	for {
		d := t.holds.Left(to, time.Now())
		if d <= 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
			return &HeldError{Upstream: true, For: d}
		}
		if err := sleep(ctx, d); err != nil {
			return err
		}
	}
}

// sleep waits for d, or for the end of ctx, whose error it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CloseIdleConnections does what it does on Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

var idempotent = []string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete}

// refused reports whether res says that r was not done and may be sent again.
// A 429 was not done, whatever its method; a 503 may have been.
func refused(res *http.Response, r *http.Request) bool {
	switch res.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return slices.Contains(idempotent, r.Method)
	}
	return false
}

var errBody = errors.New("httplimit: the body cannot be sent twice")

// rewind returns r with its body from the start.
func rewind(r *http.Request) (*http.Request, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	if r.GetBody == nil {
		return nil, errBody
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	again := r.Clone(r.Context()) // a RoundTripper changes no request
	again.Body = body
	return again, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // it was never read
	}
}

// discard reads what is left of a refusal, up to a bound, so that its connection
// can be used again. A body that goes on for longer costs the connection.
func discard(res *http.Response) {
	const (
		worthReading = 64 << 10
		worthWaiting = 500 * time.Millisecond
	)
	late := time.AfterFunc(worthWaiting, func() { _ = res.Body.Close() })
	defer late.Stop()
	_, _ = io.CopyN(io.Discard, res.Body, worthReading)
	_ = res.Body.Close()
}
