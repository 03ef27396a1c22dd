package testredis

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Conn is one plain connection to a server, for what tests ask it beside the
// store: it never connects again and never sends twice. One goroutine at a time.
type Conn struct {
	c net.Conn
	r *bufio.Reader
}

// Dial connects to addr.
func Dial(addr string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends a command and returns its reply: a string, an int64, nil, or a []any
// of those. An error reply is an error that begins with the server's word.
func (c *Conn) Do(args ...string) (any, error) { return c.DoWithin(patience, args...) }

// DoWithin is Do for a server that may not answer.
func (c *Conn) DoWithin(d time.Duration, args ...string) (any, error) {
	if err := c.c.SetDeadline(time.Now().Add(d)); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.c, b.String()); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *Conn) reply() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	rest := line[1:]
	switch line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("a reply of %q", line)
	case line[0] == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case line[0] == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.reply(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	bulk := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, bulk); err != nil {
		return nil, err
	}
	return string(bulk[:n]), nil
}

// Do sends one command over a connection of its own.
func (s *Server) Do(args ...string) (any, error) {
	c, err := Dial(s.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// Must is Do for a command that has to succeed. It returns the reply's text.
func (s *Server) Must(t testing.TB, args ...string) string {
	t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		t.Fatalf("testredis: %v: %v", args, err)
	}
	return fmt.Sprint(reply)
}
