package daemon

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/internal/door/auth"
	"github.com/weirhq/weir/internal/door/check"
	"github.com/weirhq/weir/internal/door/proxy"
	"github.com/weirhq/weir/internal/door/rls"
)

// Door is a protocol in front of the core.
type Door struct {
	Name   string
	Listen Listen
	// Open makes the server. It is called once, before the door listens.
	Open func(c *Core, name string, l *Listen) (Server, error)
}

// Server serves one door.
type Server interface {
	// Serve serves the listener until Shutdown, which is no error.
	Serve(net.Listener) error
	// Drain announces the end to those who are connected. New ones are still
	// served.
	Drain()
	// Shutdown closes the listener and waits until what is in flight is
	// answered or ctx ends.
	Shutdown(ctx context.Context) error
	// Reload reads certificates again.
	Reload() error
}

// HTTP is the API door.
func HTTP(l Listen) Door {
	return Door{Name: "http", Listen: l, Open: func(c *Core, name string, l *Listen) (Server, error) {
		handler := check.New(check.Options{
			Limiter: c.Limiter, Gate: c.Gate, Format: c.Format, Secret: c.signing.secret, Status: c.Status,
		})
		gateways := auth.New(auth.Options{Gate: c.Gate, Format: c.Format})
		return newHTTPServer(c.watchers.traced(name, false, l.guard(withJSON(c, handler), gateways)), apiTimeouts, c.log, name, l)
	}}
}

// Admin is the door for those who run the daemon. Whoever has its token may do
// everything; on loopback without a token that is everybody there.
func Admin(l Listen) Door {
	l.NeedsToken = true
	return Door{Name: "admin", Listen: l, Open: func(c *Core, name string, l *Listen) (Server, error) {
		closing := make(chan struct{})
		o := admin.Options{Gate: c.Gate, Modes: c.modes, Closing: closing}
		if c.drills != nil {
			o.Drills = c.drills
		}
		if c.RLS != nil {
			o.Descriptors = rls.KeyText
		}
		var open []string
		if w := c.watchers; w != nil {
			o.Metrics, o.Scrape, o.Top, o.Refusals = w.metrics.Gatherer(), w.metrics.Handler(), w.top, w.refusals
			o.Limiter, o.Log, o.Secret = c.Limiter, c.log, w.secret
			if w.stream != nil {
				o.Events = w.stream.Find
			}
			if w.openMetrics {
				open = append(open, "/metrics")
			}
		}
		handler := admin.New(o)
		if l.Token != "" {
			var err error
			if handler, err = admin.Login(l.Token, handler, open...); err != nil {
				return nil, err
			}
		}
		s, err := newHTTPServer(l.loopback(handler), apiTimeouts, c.log, name, l)
		if err == nil {
			s.server.RegisterOnShutdown(sync.OnceFunc(func() { close(closing) }))
		}
		return s, err
	}}
}

// Proxy is a limiting reverse proxy.
func Proxy(l Listen, o proxy.Options) Door {
	l.Public = true
	return Door{Name: "proxy", Listen: l, Open: func(c *Core, name string, l *Listen) (Server, error) {
		o.Gate, o.Limiter, o.Format, o.Identity = c.Gate, c.Limiter, c.Format, c.IdentityHeaders
		o.Connections, o.Log = c.upstreams, c.log
		return newHTTPServer(c.watchers.traced(name, true, proxy.New(o)), streamTimeouts, c.log, name, l)
	}}
}

// guard puts in front of an API what its place asks for, and the gateways'
// questions beside it. Those come under the Host, and with the Origin, of a
// gateway's client, so nothing can be told from these; they are believed from
// trusted peers alone.
func (l *Listen) guard(handler, gateways http.Handler) http.Handler {
	handler = l.loopback(handler)
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, auth.Prefix) {
			gateways.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
	if l.Auth == "token" {
		return api.Token(l.Token, both, "/healthz", "/readyz")
	}
	return both
}

// loopback puts in front of an API what keeps browsers off it that are tricked
// into coming there.
func (l *Listen) loopback(handler http.Handler) http.Handler {
	if _, unix := l.unixPath(); unix {
		return handler // no browser gets there
	}
	if loopback, err := isLoopback(l.Address); err == nil && loopback {
		return api.Loopback(handler)
	}
	return handler
}
