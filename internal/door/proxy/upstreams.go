package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// Which upstream gets a request: of those that are up the one with the fewest
// requests in flight, and among equals the next in turn. If none is up, all are
// tried as if they were: a wrong guess costs a refused connection, no guess costs
// the service.
//
// An upstream goes down when no connection to it comes about, its TLS included. The
// request has then not been sent, so the next upstream gets it, whatever its
// method; once a byte may have left, a failure is the client's to know of. Each
// failure in a row doubles how long nobody asks the upstream again, from one second
// to half a minute. With a health path an upstream is also down while that path
// fails.
//
// Checks are made when requests come, in the background, at most one an upstream
// at a time. A proxy that nobody uses asks nothing, and there is nothing to stop.

const (
	downAtFirst = time.Second
	downAtMost  = 30 * time.Second
	checkEvery  = 2 * time.Second
	checkWithin = 2 * time.Second
)

// upstreams is an http.RoundTripper over all of them.
type upstreams struct {
	all     []*upstream
	health  string // path, or "" for no checks
	ownHost bool
	turn    atomic.Uint64
	began   time.Time
	places  *places
}

// clock counts from when the proxy was made, so that a clock that is set does not
// bring an upstream down or up.
func (us *upstreams) clock() int64 { return int64(time.Since(us.began)) }

type upstream struct {
	scheme, host string
	way          http.RoundTripper
	checkWay     http.RoundTripper // of health checks
	active       atomic.Int64
	failures     atomic.Int64 // to connect, in a row
	downUntil    atomic.Int64 // on clock
	sick         atomic.Bool  // the health path fails
	checking     atomic.Bool
	checked      atomic.Int64 // when, on clock
}

// CheckUpstreams returns what is wrong with the upstreams of a proxy, or nil.
func CheckUpstreams(all []*url.URL) error {
	if len(all) == 0 {
		return errors.New("no upstream")
	}
	for _, u := range all {
		switch {
		case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
			return errors.New("an upstream is http://HOST[:PORT][/PATH], https://… or h2c://…")
		case badPort(u.Port()):
			return fmt.Errorf("%q is no port; one lies between 1 and 65535", u.Port())
		case u.Path != all[0].Path:
			return fmt.Errorf("all upstreams have one path: %q is not %q", u.Path, all[0].Path)
		}
	}
	return nil
}

// badPort says that a port is given which nobody can listen on. What is no number
// is no URL either.
func badPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port != "" && (err != nil || n < 1 || n > 65535)
}

func newUpstreams(o *Options) *upstreams {
	us := &upstreams{health: o.HealthPath, ownHost: o.OwnHost, began: time.Now(), places: newPlaces(o.Connections, o.Log)}
	dial := us.places.dial(dialer)
	plain, prior := transport(o.AnswerWithin, false, dial), transport(o.AnswerWithin, true, dial)
	us.places.free = func() { plain.CloseIdleConnections(); prior.CloseIdleConnections() }
	checkPlain, checkPrior := transport(checkWithin, false, dialer.DialContext), transport(checkWithin, true, dialer.DialContext)
	for _, to := range o.Upstreams {
		u := &upstream{scheme: to.Scheme, host: to.Host, way: plain, checkWay: checkPlain}
		if u.scheme == "h2c" {
			u.scheme, u.way, u.checkWay = "http", prior, checkPrior
		}
		u.checked.Store(-1) // never
		us.all = append(us.all, u)
	}
	return us
}

// RoundTrip implements http.RoundTripper.
func (us *upstreams) RoundTrip(r *http.Request) (*http.Response, error) {
	us.check()
	var tried uint64 // a set; more than 64 upstreams are not tried twice either
	for attempt := 0; ; attempt++ {
		i := us.pick(tried)
		u := us.all[i]
		res, err := u.send(r, us.ownHost)
		if err == nil || !unsent(err) || r.Context().Err() != nil {
			return res, err
		}
		u.fail(us.clock())
		if tried |= 1 << (i % 64); attempt+1 >= min(len(us.all), 64) {
			return nil, err
		}
	}
}

// pick returns the upstream that gets the next request, one of those that were
// not tried as long as there is one.
func (us *upstreams) pick(tried uint64) int {
	now, turn := us.clock(), int(us.turn.Add(1)%uint64(len(us.all)))
	best, bestWorth := turn, -1
	for k := range us.all {
		i := (turn + k) % len(us.all)
		u := us.all[i]
		worth := 0 // 2: not tried, 1: up
		if tried&(1<<(i%64)) == 0 {
			worth = 2
		}
		if u.up(now) {
			worth++
		}
		if worth > bestWorth || worth == bestWorth && u.active.Load() < us.all[best].active.Load() {
			best, bestWorth = i, worth
		}
	}
	return best
}

func (u *upstream) up(now int64) bool { return now >= u.downUntil.Load() && !u.sick.Load() }

// send sends r here. Requests in flight are counted until the body of the answer
// is closed: a stream of an hour is a load of an hour.
func (u *upstream) send(r *http.Request, ownHost bool) (*http.Response, error) {
	out := *r
	to := *r.URL
	to.Scheme, to.Host = u.scheme, u.host
	out.URL = &to
	if ownHost {
		out.Host = u.host
	}
	if r.Body != nil {
		out.Body = keepOpen{r.Body} // another upstream may have to send it
	}
	u.active.Add(1)
	res, err := u.way.RoundTrip(&out)
	if err != nil {
		u.active.Add(-1)
		return nil, err
	}
	u.failures.Store(0)
	u.downUntil.Store(0)
	res.Body = counted(res.Body, u)
	return res, nil
}

// fail notes that no connection came about. Requests that fail at the same time
// are one failure.
func (u *upstream) fail(now int64) {
	if now < u.downUntil.Load() {
		return
	}
	n := u.failures.Add(1)
	u.downUntil.Store(now + int64(min(downAtFirst<<min(n-1, 10), downAtMost)))
}

// unsent reports whether err means that nothing of the request has left.
func unsent(err error) bool {
	var dial *net.OpError
	var tls *handshakeError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &tls)
}

// check begins the health checks that are due.
func (us *upstreams) check() {
	if us.health == "" {
		return
	}
	now := us.clock()
	for _, u := range us.all {
		if last := u.checked.Load(); (last < 0 || now-last >= int64(checkEvery)) && u.checking.CompareAndSwap(false, true) {
			go func() {
				defer u.checking.Store(false)
				u.sick.Store(!u.healthy(us.health))
				u.checked.Store(us.clock())
			}()
		}
	}
}

// healthy reports whether path answers in time and with no error.
func (u *upstream) healthy(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), checkWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.scheme+"://"+u.host+path, nil)
	if err != nil {
		return false
	}
	res, err := u.checkWay.RoundTrip(r)
	if err != nil {
		return false
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the connection can be used again
	return res.Body.Close() == nil && res.StatusCode < 400
}

// keepOpen is a body that a failed attempt does not close.
type keepOpen struct{ io.Reader }

// Close implements io.Closer.
func (keepOpen) Close() error { return nil }

// counted returns body with u told of its end. That of an upgraded connection
// stays one that can be written to.
func counted(body io.ReadCloser, u *upstream) io.ReadCloser {
	c := &countedBody{ReadCloser: body, u: u}
	if w, ok := body.(io.Writer); ok {
		return upgraded{c, w}
	}
	return c
}

type countedBody struct {
	io.ReadCloser
	u     *upstream
	ended atomic.Bool
}

// Close implements io.Closer.
func (c *countedBody) Close() error {
	if !c.ended.Swap(true) {
		c.u.active.Add(-1)
	}
	return c.ReadCloser.Close()
}

type upgraded struct {
	*countedBody
	io.Writer
}

// CloseWrite ends one direction: the other side may still be speaking.
func (u upgraded) CloseWrite() error {
	if half, ok := u.Writer.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
