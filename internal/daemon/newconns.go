package daemon

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// firstWithin is how long a door at its end waits for the first request of those
// who are connected. Some connect long before they have anything to ask.
const firstWithin = time.Second

// newConns knows the connections of a server that had no request served yet.
type newConns struct {
	all   sync.Map // net.Conn → nothing
	count atomic.Int64
}

type newConn struct {
	net.Conn
	served atomic.Bool
}

type newConnKey struct{}

// add is the server's ConnContext.
func (n *newConns) add(ctx context.Context, conn net.Conn) context.Context {
	n.all.Store(conn, nil)
	n.count.Add(1)
	return context.WithValue(ctx, newConnKey{}, &newConn{Conn: conn})
}

// heed is the server's ConnState: a connection may end without a request.
func (n *newConns) heed(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		n.forget(conn)
	}
}

// served notes that a request of the connection is being served.
func (n *newConns) served(ctx context.Context) {
	if c, ok := ctx.Value(newConnKey{}).(*newConn); ok && !c.served.Swap(true) {
		n.forget(c.Conn)
	}
}

func (n *newConns) forget(conn net.Conn) {
	if _, known := n.all.LoadAndDelete(conn); known {
		n.count.Add(-1)
	}
}

// wait waits until all have had a request served, for a while.
func (n *newConns) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstWithin)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n.count.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
