package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// attempt is one to connect. It is given up when the Conn is closed, since a server
// that takes a connection and says nothing would keep Close waiting for as long as
// an answer may take.
type attempt struct {
	mu     sync.Mutex
	done   bool
	spared []func() bool // of each connection: it is closed by Close no more
}

type dialing = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// until returns dial, or the client's own way if it is nil, until open ends.
func (a *attempt) until(open context.Context, dial dialing) dialing {
	if dial == nil {
		dial = plain
	}
	return func(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(open, cancel)()
		conn, err := dial(ctx, addr, d, config)
		if err != nil {
			return nil, err
		}
		if err := open.Err(); err != nil { // dial may be faster than the end of its context
			return nil, errors.Join(err, conn.Close())
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.done {
			a.spared = append(a.spared, context.AfterFunc(open, func() { _ = conn.Close() }))
		}
		return conn, nil
	}
}

func plain(ctx context.Context, addr string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
}

// over leaves the connections to the client, which then ends them in its own way.
func (a *attempt) over() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
	for _, spare := range a.spared {
		spare()
	}
}
