package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// How long a client may make no progress
//
// A client that takes no byte of its answer, or sends none of its request, holds a
// connection to an upstream that others wait for. So a deadline stands while a
// block is being written to it or read from it, and each block has its own: bodies
// may take any time as long as they move. Between blocks none stands, since a
// stream or a websocket on which nobody has anything to say is in order.
//
// What a client owes of its request, it owes until the upstream begins to answer.
// From then on a request over HTTP/2 may be one half of a conversation and silent
// for long. Over HTTP/1 net/http reads the rest of a request before it sends the
// head of the answer, so there reads are bounded to the end.

const progressUnlessSaid = time.Minute

// errStuck is a client that sends nothing more of its request.
var errStuck = errors.New("the client sends nothing more of its request")

// client is a ResponseWriter that waits for its client no longer than within at a
// time, to write or, by the body that sending returns, to read.
type client struct {
	http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	version int  // of HTTP
	interim bool // it knows of answers before the answer

	mu       sync.Mutex // the request is read and the answer written at the same time
	reading  int        // who reads, and who may
	answered bool       // the upstream has begun to answer
	whole    bool       // all of the request has been read
	stuck    bool       // no more will: what is read fails at once
	over     bool       // the request is, and the connection the next one's
}

func newClient(w http.ResponseWriter, r *http.Request, within time.Duration) *client {
	c := &client{ResponseWriter: w, control: http.NewResponseController(w), within: within, version: r.ProtoMajor, interim: r.ProtoAtLeast(1, 1)}
	c.whole = r.Body == nil || r.Body == http.NoBody
	c.setWrite(time.Time{}) // what the last request left
	return c
}

// Doors without deadlines, as those of tests, refuse to set one; nothing else can
// go wrong with a connection that is there.
func (c *client) setWrite(at time.Time) { _ = c.control.SetWriteDeadline(at) }
func (c *client) setRead(at time.Time)  { _ = c.control.SetReadDeadline(at) }

// end is to be called when all is done but what net/http does then: it writes and
// reads what is left.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.setWrite(time.Now().Add(c.within))
	if c.version == 1 && !c.whole && !c.stuck {
		c.setRead(time.Now().Add(c.within)) // net/http sets its own for the next request
	}
}

// beginAnswer notes that the upstream answers.
func (c *client) beginAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	if c.version > 1 && c.reading > 0 && !c.stuck {
		c.setRead(time.Time{})
	}
}

// isStuck reports whether the client was given up as it sent nothing more.
func (c *client) isStuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stuck
}

func (c *client) beginRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading++
	if !c.over && !c.stuck && !(c.version > 1 && c.answered) {
		c.setRead(time.Now().Add(c.within))
	}
}

// endRead returns err, or what it means.
func (c *client) endRead(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	switch {
	case errors.Is(err, io.EOF):
		c.whole = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.stuck, err = true, errStuck
	}
	if c.reading == 0 && !c.over && !c.stuck { // a deadline that passed is the end for HTTP/2
		c.setRead(time.Time{})
	}
	return err
}

// beginWrite reports whether the write may also read, as a first one does.
func (c *client) beginWrite() (reads bool) {
	c.mu.Lock()
	reads = c.version == 1 && !c.whole
	c.mu.Unlock()
	if reads {
		c.beginRead()
	}
	c.setWrite(time.Now().Add(c.within))
	return reads
}

func (c *client) endWrite(reads bool) {
	c.setWrite(time.Time{})
	if reads {
		_ = c.endRead(nil)
	}
}

// Write implements http.ResponseWriter.
func (c *client) Write(p []byte) (int, error) {
	reads := c.beginWrite()
	defer c.endWrite(reads)
	return c.ResponseWriter.Write(p)
}

// WriteHeader implements http.ResponseWriter. That the client is to go on net/http
// tells by itself when the body is first read, which may be before the upstream's
// word gets here: that would be told twice. HTTP/1.0 has no answers before the
// answer, and net/http would send them all the same.
func (c *client) WriteHeader(status int) {
	interim := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if status == http.StatusContinue || interim && !c.interim {
		return
	}
	reads := c.beginWrite()
	defer c.endWrite(reads)
	c.ResponseWriter.WriteHeader(status)
}

// FlushError is for http.ResponseController.
func (c *client) FlushError() error {
	reads := c.beginWrite()
	defer c.endWrite(reads)
	return c.control.Flush()
}

// Hijack is for http.ResponseController.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := c.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	return taking{conn, c.within}, buffer, nil
}

// Unwrap is for http.ResponseController.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// taking is an upgraded connection whose client must take what is written.
type taking struct {
	net.Conn
	within time.Duration
}

// Write implements net.Conn.
func (t taking) Write(p []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(t.within)); err != nil {
		return 0, err
	}
	return t.Conn.Write(p)
}

// CloseWrite ends one direction: the other side may still be speaking.
func (t taking) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// sending is the body of a request whose client must send it.
type sending struct {
	io.ReadCloser
	client *client
}

// Read implements io.Reader.
func (s sending) Read(p []byte) (int, error) {
	s.client.beginRead()
	n, err := s.ReadCloser.Read(p)
	return n, s.client.endRead(err)
}

// Close implements io.Closer. It may read what is left.
func (s sending) Close() error {
	s.client.beginRead()
	return s.client.endRead(s.ReadCloser.Close())
}
