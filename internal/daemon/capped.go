package daemon

import (
	"errors"
	"io"
	"net"
	"sync"
)

// maxConnections bounds what one door holds open at a time, so that descriptors
// and the memory of readers are bounded too.
const maxConnections = 16_384

const (
	// kept back for the store, the policy, certificates and the runtime: an eighth of
	// all, and so many at least.
	ownDescriptors     = 64
	unknownDescriptors = 1 << 20
)

// connectionCap returns how many connections a door may hold where the process
// may have so many descriptors and they are divided into shares. One that ran out
// of them could accept nobody, nor reach its store.
func connectionCap(descriptors, shares uint64) int {
	own := max(descriptors/8, ownDescriptors)
	left := max(descriptors, own) - own
	return int(min(max(left/shares, 1), maxConnections))
}

// sharesOf returns into how many shares doors divide the descriptors: one a door,
// and one more for what a proxy opens for its clients.
func sharesOf(doors []Door) (n uint64) {
	for i := range doors {
		n++
		if doors[i].Listen.Public {
			n++
		}
	}
	return n
}

// capped is a listener that closes connections over its cap at once. A listener
// that stopped accepting instead would leave new clients waiting behind idle
// ones without a word.
type capped struct {
	net.Listener
	room chan struct{}
}

// Accept implements net.Listener.
func (c *capped) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case c.room <- struct{}{}:
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { <-c.room })}, nil
		default:
			// It never was a connection of ours: there is nobody to tell.
			_ = conn.Close()
		}
	}
}

// counted is a connection that gives its room back once.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets the HTTP server end an answer whose request it has not read
// to the end without resetting the connection under it.
func (c *counted) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadFrom keeps the kernel's way of moving bodies between sockets.
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	if to, ok := c.Conn.(io.ReaderFrom); ok {
		return to.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}
