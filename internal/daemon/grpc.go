package daemon

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"sync/atomic"

	"github.com/weirhq/weir/internal/door/rls"
	"github.com/weirhq/weir/redisstore"
)

// openRLS loads what the gRPC door and /json answer from, if they are asked for.
func (c *Config) openRLS(core *Core) error {
	if c.RLS == nil {
		return nil
	}
	o := *c.RLS
	o.Limiter = core.Limiter
	if c.Store.shared() {
		o.Budget = cmp.Or(c.Store.Timeout, redisstore.DefaultTimeout)
	}
	o.Loaded = func(err error) {
		if err != nil {
			c.Log.Error("the configuration of the rate limit service is wrong; the one before it stays in force", "error", err.Error())
			return
		}
		c.Log.Info("the configuration of the rate limit service was read again and is in force", "directory", o.Dir)
	}
	service, err := rls.New(o)
	if err != nil {
		return &PolicyError{err}
	}
	core.RLS = service
	return core.watchers.metrics.Register(service)
}

// GRPC is the door for Envoy. Config.RLS says what it answers.
func GRPC(l Listen) Door {
	return Door{Name: "grpc", Listen: l, Open: func(c *Core, name string, l *Listen) (Server, error) {
		s := &grpcServer{door: name, listen: l}
		config, err := l.tls(name)
		if err != nil {
			return nil, err
		}
		o := rls.ServerOptions{Trace: c.watchers.begin(name)}
		if l.Auth == "token" {
			o.Token = l.Token
		}
		if config != nil {
			s.config.Store(config)
			o.TLS = s.config.Load
		}
		s.Server = rls.NewServer(c.RLS, o)
		return s, nil
	}}
}

// grpcServer is the door with its certificates.
type grpcServer struct {
	*rls.Server
	door   string
	listen *Listen
	config atomic.Pointer[tls.Config]
}

// Reload implements Server.
func (s *grpcServer) Reload() error {
	config, err := s.listen.tls(s.door)
	if err == nil && config != nil {
		s.config.Store(config)
	}
	return err
}

// withJSON puts /json, and the path that probes of envoyproxy/ratelimit ask, in
// front of next.
func withJSON(c *Core, next http.Handler) http.Handler {
	if c.RLS == nil {
		return next
	}
	answer := c.RLS.JSON()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case rls.JSONPath:
			answer.ServeHTTP(w, r)
		case rls.HealthPath:
			rls.Health(w, !c.draining.Load())
		default:
			next.ServeHTTP(w, r)
		}
	})
}
