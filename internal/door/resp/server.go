package resp

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
)

// Options configures New.
type Options struct {
	Limiter *weir.Limiter
	Version string // of the program, for INFO
	Token   string // that AUTH takes, or "" for none
}

// Server serves Redis clients.
type Server struct {
	Options
	closing atomic.Bool
	ids     atomic.Int64
	began   time.Time

	mu      sync.Mutex
	conns   map[*conn]struct{}
	handled sync.WaitGroup
	close   func() error
}

// New returns a server that does not yet serve.
func New(o Options) *Server {
	return &Server{Options: o, conns: map[*conn]struct{}{}, began: time.Now()}
}

// Serve serves until Shutdown, which is no error.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.close = sync.OnceValue(l.Close)
	s.mu.Unlock()
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		var busy net.Error
		switch {
		case s.closing.Load():
			if err == nil {
				_ = nc.Close()
			}
			return nil
		case errors.As(err, &busy) && !errors.Is(err, net.ErrClosed):
			// Out of descriptors, most likely: those who are connected go on.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
			continue
		case err != nil:
			return err
		}
		pause = 0
		c := &conn{Conn: nc, server: s, id: s.ids.Add(1), proto: 2, trusted: s.Token == ""}
		if !s.add(c) {
			_ = nc.Close()
			return nil
		}
		go c.serve()
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	s.handled.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	_ = c.Close() // the peer has gone, or is told all that it will be
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.handled.Done()
}

// Drain does nothing: the protocol has no word for it. Clients connect anew when
// Shutdown closes their connections between two commands.
func (s *Server) Drain() {}

// Shutdown closes the listener and every connection once it has been answered
// what it has sent, and cuts off the rest when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Store(true)
	s.mu.Lock()
	if s.close != nil {
		_ = s.close() // nobody else comes in either way
	}
	for c := range s.conns {
		_ = c.SetReadDeadline(time.Now()) // wakes who waits for a command
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.handled.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	<-done
	return ctx.Err()
}
