package resp

import (
	"context"
	"net"
	"time"
)

const (
	roomToRead = 4 << 10
	// wholeWithin is how long a command may take to arrive once it has begun, and
	// a reply to be taken. Between commands a client may be silent for ever.
	wholeWithin = 30 * time.Second
)

// conn is one client.
type conn struct {
	net.Conn
	server  *Server
	id      int64
	proto   int  // 2 or 3
	trusted bool // has shown the token, or none is asked for
	name    string
	library [2]string // name and version, as the client says
	ending  bool      // to be closed after the replies

	parser   parser
	buf      []byte // read and not yet taken
	anew     bool   // what is left in buf is of another command than before
	throttle throttled
	limits   map[string]spelled
}

// serve answers the client until it goes.
func (c *conn) serve() {
	defer c.server.remove(c)
	c.buf = make([]byte, 0, roomToRead)
	timed := false // a deadline stands, for the command that begins the buffer
	for !c.ending && !c.server.closing.Load() {
		if pending := len(c.buf) > 0; pending != timed || pending && c.anew {
			timed = pending
			by := time.Time{}
			if pending {
				by = time.Now().Add(wholeWithin)
			}
			if c.SetReadDeadline(by) != nil || c.server.closing.Load() {
				return
			}
		}
		n, err := c.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if n > 0 && c.answer() != nil || err != nil {
			return
		}
	}
}

// answer takes every whole command off the buffer and writes the replies.
func (c *conn) answer() error {
	b := batches.Get().(*batch)
	defer b.release()
	taken := 0
	var fault error
	for !c.ending && fault == nil {
		args, n, err := c.parser.next(c.buf[taken:])
		if err == nil && n == 0 {
			break
		}
		taken += n
		switch {
		case err != nil:
			fault = err
			b.fail("ERR " + err.Error())
			c.ending = true
		case len(args) > 0:
			c.execute(b, args)
		}
		if b.used == mostBills {
			b.decide(context.Background(), c.server.Limiter)
		}
	}
	b.decide(context.Background(), c.server.Limiter)
	c.keep(taken)
	c.anew = taken > 0
	if len(b.out) == 0 {
		return nil
	}
	if err := c.SetWriteDeadline(time.Now().Add(wholeWithin)); err != nil {
		return err
	}
	_, err := c.Write(b.out)
	return err
}

// keep moves what is left to the front of the buffer and makes room behind it,
// more where a command needs it and no more than an idle client should have
// where nothing is left.
func (c *conn) keep(taken int) {
	rest := c.buf[taken:]
	switch {
	case len(rest) == 0 && cap(c.buf) > 4*roomToRead:
		c.buf = make([]byte, 0, roomToRead)
	case len(rest) == cap(c.buf):
		c.buf = append(make([]byte, 0, 2*cap(c.buf)), rest...)
	case taken == 0 && len(c.buf) == cap(c.buf):
		c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
	default:
		c.buf = c.buf[:copy(c.buf[:cap(c.buf)], rest)]
	}
}
