package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Timeouts bounds how long a client may take.
type Timeouts struct {
	Header time.Duration // to send a request's header
	Body   time.Duration // to send all of a request; 0 for a door that streams
	Answer time.Duration // to take the answer; 0 for a door that streams
	Idle   time.Duration // between requests
}

// apiTimeouts are those of a door whose bodies are small.
var apiTimeouts = Timeouts{Header: 5 * time.Second, Body: 10 * time.Second, Answer: 15 * time.Second, Idle: 2 * time.Minute}

// streamTimeouts are those of a door that passes streams of any length, and that
// bounds by itself how long a client may make no progress.
var streamTimeouts = Timeouts{Header: 10 * time.Second, Idle: 2 * time.Minute}

const maxHeader = 64 << 10

// httpServer is an http.Server that drains without cutting anything off.
//
// From the first sign of the end each answer carries "Connection: close", while
// the listener stays open for those who have not noticed yet; idle connections
// are not closed under a client that may be writing its next request just then,
// as SetKeepAlivesEnabled(false) would. Shutdown waits for the first request of
// those who have just connected, since http.Server drops what it has not begun to
// answer, and for hijacked connections, which it forgets.
type httpServer struct {
	door    string
	listen  *Listen
	server  *http.Server
	config  atomic.Pointer[tls.Config] // nil for plain text
	closing atomic.Bool
	active  atomic.Int64 // handlers at work
	new     newConns
}

func newHTTPServer(handler http.Handler, t Timeouts, log *slog.Logger, door string, l *Listen) (*httpServer, error) {
	s := &httpServer{door: door, listen: l}
	config, err := l.tls(door)
	if err != nil {
		return nil, err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s.server = &http.Server{
		Handler:           s.wrap(handler, log),
		ReadHeaderTimeout: t.Header,
		ReadTimeout:       t.Body,
		WriteTimeout:      t.Answer,
		IdleTimeout:       t.Idle,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       s.new.add,
		ConnState:         s.new.heed,
		// OPTIONS * is a request like any other: the doors answer it, or pass it on.
		DisableGeneralOptionsHandler: true,
		Protocols:                    &protocols,
		// The server's own complaints are about single clients and name their
		// addresses, which are keys.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	if config != nil {
		s.config.Store(config)
		s.server.TLSConfig = &tls.Config{
			MinVersion: config.MinVersion,
			NextProtos: config.NextProtos,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return s.config.Load(), nil
			},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return &s.config.Load().Certificates[0], nil
			},
		}
	}
	return s, nil
}

// Reload implements Server.
func (s *httpServer) Reload() error {
	config, err := s.listen.tls(s.door)
	if err == nil && config != nil {
		s.config.Store(config)
	}
	return err
}

// Drain implements Server.
func (s *httpServer) Drain() { s.closing.Store(true) }

// wrap counts handlers, ends connections while closing, and keeps a panic from
// going further than its request.
func (s *httpServer) wrap(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.active.Add(1)
		defer s.active.Add(-1)
		s.new.served(r.Context())
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // the one panic net/http means: cut the answer off
			default:
				log.Error("a request failed", "panic", p, "stack", string(debug.Stack()))
				panic(http.ErrAbortHandler)
			}
		}()
		if s.closing.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Serve implements Server.
func (s *httpServer) Serve(listener net.Listener) error {
	var err error
	if s.config.Load() != nil {
		err = s.server.ServeTLS(listener, "", "")
	} else {
		err = s.server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown implements Server. It cuts off what is left when ctx ends.
func (s *httpServer) Shutdown(ctx context.Context) error {
	s.new.wait(ctx)
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(err, s.server.Close())
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.active.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
