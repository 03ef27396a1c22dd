package daemon

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
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

// Into parts: the clients of a door have two, and what a proxy opens to its
// upstreams one more. Most clients are idle and need no upstream.
const (
	clientParts   = 2
	upstreamParts = 1
)

// connectionCap returns how many connections may be held by who has some of so
// many parts, where the process may have so many descriptors. One that ran out of
// them could accept nobody, nor reach its store.
func connectionCap(descriptors, some, parts uint64) int {
	own := max(descriptors/8, ownDescriptors)
	left := max(descriptors, own) - own
	return int(min(max(left/parts*some, 1), maxConnections))
}

// partsOf returns into how many parts doors divide the descriptors.
func partsOf(doors []Door) (n uint64) {
	for i := range doors {
		n += clientParts
		if doors[i].Listen.Public {
			n += upstreamParts
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
	full func()      // told when it is, or nil
	told atomic.Bool // until a quarter is free again
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
			return &counted{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
		default:
			if !c.told.Swap(true) && c.full != nil {
				c.full()
			}
			// It never was a connection of ours: there is nobody to tell.
			_ = conn.Close()
		}
	}
}

// leave gives room back.
func (c *capped) leave() {
	<-c.room
	if len(c.room) <= cap(c.room)*3/4 && c.told.Load() {
		c.told.Store(false)
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
