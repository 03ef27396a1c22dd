// Package proxy is a reverse proxy that asks the gate before it passes a
// request on. Its listener serves nothing of its own: whatever is admitted is
// the upstream's to answer.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/door/api"
)

// Options is what the proxy stands between.
type Options struct {
	Gate    *gate.Gate
	Limiter *weir.Limiter          // for refunds to requests that gave up waiting
	Format  func() *headers.Format // of the policy in force
	// Upstreams share the requests: http, https, or h2c for HTTP/2 in plain text,
	// which takes no websockets. All have one path. See CheckUpstreams.
	Upstreams []*url.URL
	// HealthPath is asked of each upstream; one where it fails gets no requests
	// while others do. Empty asks nothing.
	HealthPath string
	// OwnHost sends the upstream's host name instead of the client's.
	OwnHost bool
	// AnswerWithin bounds the wait for the head of the upstream's answer; the
	// body may take any time. 0 is a minute.
	AnswerWithin time.Duration
	// ProgressWithin bounds how long a client may take nothing of a block of its
	// answer, or send nothing of its request; it is then cut off, in an upload with
	// 408 if it still listens. A stream that is idle is not. 0 is a minute.
	ProgressWithin time.Duration
	// MaxWaiting bounds how many requests are being decided here, or held back by a
	// leaky bucket, at a time; those over it are decided at once and never held.
	// 0 is 1,000.
	MaxWaiting int
	// MaxWait bounds how long a leaky bucket holds a request; one that would wait
	// longer is denied, and nothing charged. 0 is 30 seconds.
	MaxWait time.Duration
	// Connections bounds how many connections to upstreams are open at a time, idle
	// ones included; a request that needs one more waits for two seconds and is then
	// answered 503. 0 is 1,024.
	Connections int
	Log         *slog.Logger // is told when that bound is reached; nil for nobody
	// Attrs are the attributes that are read from bodies; see BodyAttr.
	Attrs []BodyAttr
	// Identity returns the headers that say who a client is, beyond the usual
	// ones. They pass from trusted peers alone.
	Identity func() []string
}

type proxy struct {
	Options
	queue    queue
	upstream *httputil.ReverseProxy
}

// New returns the proxy of upstreams that CheckUpstreams has found right. It is
// safe for concurrent use.
func New(o Options) http.Handler {
	if o.AnswerWithin <= 0 {
		o.AnswerWithin = time.Minute
	}
	if o.ProgressWithin <= 0 {
		o.ProgressWithin = progressUnlessSaid
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = 1000
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 30 * time.Second
	}
	p := &proxy{Options: o, queue: queue{most: int64(o.MaxWaiting)}}
	p.upstream = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		ModifyResponse: addFields,
		ErrorHandler:   answerFailure,
		Transport:      newUpstreams(&o),
		FlushInterval:  -1, // what the upstream has written, the client gets
		BufferPool:     newBuffers(),
	}
	return p
}

// passed is what the verdict leaves for the way to the upstream and back.
type passed struct {
	caller identity.Caller
	answer headers.Answer
	client *client
}

type passedKey struct{}

func passedOf(ctx context.Context) *passed { return ctx.Value(passedKey{}).(*passed) }

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w := newClient(to, r, p.ProgressWithin)
	defer w.end()
	if r.Method == http.MethodConnect {
		api.Refuse(w, api.Problem{Status: http.StatusMethodNotAllowed, Detail: "this proxy opens no tunnels"})
		return
	}
	if r.URL.Opaque != "" {
		// x:http://h/login has no path to look at, and http://h/login is what the
		// upstream would get.
		api.Refuse(w, api.Problem{Status: http.StatusBadRequest, Detail: "the target of the request is neither a path nor a URL with one"})
		return
	}
	if admitted := p.admit(w, r); admitted != nil {
		// An HTTP/1 client is answered when it has sent its request, or 256 KiB more
		// of it. EnableFullDuplex would answer it before, but then the connection
		// is used again while the transport may still be reading the old body, and
		// net/http panics.
		admitted.client = w
		r = r.WithContext(context.WithValue(r.Context(), passedKey{}, admitted))
		if !w.whole {
			r.Body = sending{r.Body, w}
		}
		if r.Trailer != nil && !admitted.caller.Trusted {
			names := p.Identity()
			dropClaims(r.Trailer, names) // what is announced
			r.Body = unbelieved{r.Body, r.Trailer, names}
		}
		p.upstream.ServeHTTP(w, r)
	}
}

// admit returns what goes on with an admitted request, or answers it.
func (p *proxy) admit(w http.ResponseWriter, r *http.Request) *passed {
	call := identity.CallOf(r)
	call.Attrs = readAttrs(w, r, p.Attrs)
	v := gate.Get()
	defer gate.Put(v)
	held := p.queue.enter()
	leave := func() {
		p.queue.leave(held)
		held = false
	}
	defer leave() // a panic too ends one request alone
	v.Door, v.NoWait, v.MaxDelay = "proxy", !held, p.MaxWait
	if err := p.Gate.Decide(r.Context(), &call, v); err != nil {
		leave() // before the answer, which a client may be slow to take
		refuse(w, err)
		return nil
	}
	answer := p.Format().Answer(&v.Bill, api.Shows(v))
	if !v.Bill.Allowed {
		leave()
		// A client that has gone away needs no answer.
		_ = answer.Refuse(w, r)
		return nil
	}
	if err := p.Limiter.Hold(r.Context(), &v.Bill); err != nil {
		leave()
		api.Refuse(w, gone)
		return nil
	}
	return &passed{caller: v.Caller, answer: answer}
}

// gone is for a client that has gone away, as far as net/http can see: it may have
// ended its side of the connection alone, and would be told 200 by a handler that
// says nothing.
var gone = api.Problem{Status: http.StatusServiceUnavailable, Detail: "the client ended its side of the connection before it was answered"}

// refuse answers a request that could not be decided.
func refuse(w http.ResponseWriter, err error) {
	var input *weir.InputError
	if errors.As(err, &input) {
		api.Refuse(w, api.Problem{Status: http.StatusBadRequest, Detail: input.Problem})
		return
	}
	api.Refuse(w, api.Problem{Status: http.StatusServiceUnavailable, Detail: "the request could not be decided"})
}

// addFields puts our answer's fields into the upstream's answer, in place of
// its own of those names.
func addFields(w *http.Response) error {
	admitted := passedOf(w.Request.Context())
	admitted.answer.Write(w.Header)
	admitted.client.beginAnswer()
	return nil
}

// answerFailure answers where the upstream did not.
func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	admitted := passedOf(r.Context())
	stuck := admitted.client.isStuck() // which for net/http is as if it had gone away
	if r.Context().Err() != nil && !stuck {
		api.Refuse(w, gone)
		return
	}
	admitted.answer.Write(w.Header())
	if stuck {
		api.Refuse(w, api.Problem{Status: http.StatusRequestTimeout, Detail: "the rest of the request did not arrive in time"})
		return
	}
	if errors.Is(err, errNoPlace) {
		headers.WriteWait(w.Header(), 0)
		api.Refuse(w, api.Problem{Status: http.StatusServiceUnavailable, Detail: "all connections to the upstream are in use"})
		return
	}
	p := api.Problem{Status: http.StatusBadGateway, Detail: "the upstream did not answer"}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		p = api.Problem{Status: http.StatusGatewayTimeout, Detail: "the upstream did not answer in time"}
	}
	api.Refuse(w, p)
}

// dialer connects to upstreams.
var dialer = &net.Dialer{Timeout: 5 * time.Second}

const handshakeWithin = 5 * time.Second

// transport returns a way to upstreams; with prior knowledge it speaks HTTP/2
// without TLS.
func transport(within time.Duration, prior bool, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!prior)
	protocols.SetHTTP2(!prior)
	protocols.SetUnencryptedHTTP2(prior)
	t := &http.Transport{
		DialContext:           dial,
		TLSClientConfig:       new(tls.Config),
		ResponseHeaderTimeout: within,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   256,
		DisableCompression:    true, // bodies pass as they are
		Protocols:             &protocols,
	}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, conn, t.TLSClientConfig, address)
	}
	return t
}

// handshake is done here and not by the Transport, whose errors do not tell whether
// anything was sent.
func handshake(ctx context.Context, conn net.Conn, config *tls.Config, address string) (net.Conn, error) {
	config = config.Clone() // the Transport has put the versions of HTTP into it
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address) // a Transport's always has a port
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	over := tls.Client(conn, config)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(&handshakeError{err}, conn.Close())
	}
	return over, nil
}

// handshakeError is a connection on which no TLS came about.
type handshakeError struct{ err error }

// Error implements error.
func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

// Unwrap returns what went wrong.
func (e *handshakeError) Unwrap() error { return e.err }

// isWebsocket reports whether the Upgrade fields ask for a websocket and
// nothing else.
func isWebsocket(h http.Header) bool {
	u := h["Upgrade"]
	return len(u) == 1 && strings.EqualFold(strings.TrimSpace(u[0]), "websocket")
}
