package daemon

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/weirhq/weir/internal/door/resp"
)

// RESP is the door for Redis clients. version is the program's.
func RESP(l Listen, version string) Door {
	return Door{Name: "resp", Listen: l, Open: func(c *Core, name string, l *Listen) (Server, error) {
		s := &respServer{door: name, listen: l}
		config, err := l.tls(name)
		if err != nil {
			return nil, err
		}
		if config != nil {
			s.config.Store(config)
		}
		o := resp.Options{Limiter: c.Limiter, Version: version}
		if l.Auth == "token" {
			o.Token = l.Token
		}
		s.Server = resp.New(o)
		return s, nil
	}}
}

// respServer is the door with its certificates.
type respServer struct {
	*resp.Server
	door   string
	listen *Listen
	config atomic.Pointer[tls.Config] // nil for plain text
}

// Serve implements Server.
func (s *respServer) Serve(l net.Listener) error {
	if s.config.Load() == nil {
		return s.Server.Serve(l)
	}
	return s.Server.Serve(tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := s.config.Load().Clone()
			c.NextProtos = nil
			return c, nil
		},
	}))
}

// Reload implements Server.
func (s *respServer) Reload() error {
	config, err := s.listen.tls(s.door)
	if err == nil && config != nil {
		s.config.Store(config)
	}
	return err
}
