package testredis

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and does to the way what networks
// do. It passes bytes on as they come and knows nothing of Redis. Safe for
// concurrent use.
type Proxy struct {
	Addr string // host:port to connect to

	target string
	listen net.Listener
	work   sync.WaitGroup

	mu     sync.Mutex
	pairs  map[*pair]bool
	delay  time.Duration
	refuse bool
	deaf   bool
	closed bool
}

// pair is one connection and what it goes on to.
type pair struct{ client, server *net.TCPConn }

func (p *pair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// StartProxy listens on a free loopback port for connections to target and ends
// with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, pairs: make(map[*pair]bool)}
	p.work.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// URL returns the store URL through the proxy.
func (p *Proxy) URL() string { return "redis://" + p.Addr + "/0" }

// Lead leads new connections to another server, as a name does whose address has
// changed. Those there are stay where they are.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Delay holds back everything that comes from now on, in each direction, by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Refuse cuts every connection, and new ones as they come, until told otherwise.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.Cut()
	}
}

// Cut resets every connection there is: what is under way is lost.
func (p *Proxy) Cut() {
	for _, c := range p.open() {
		_ = c.client.SetLinger(0) // a reset and no orderly end
		c.close()
	}
}

// Deaf loses what servers answer, on every connection, until told otherwise:
// the server gets and does what clients send, and nobody hears of it. A
// connection that has lost something stays deaf: nothing comes after a gap.
func (p *Proxy) Deaf(deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = deaf
}

// HalfClose ends the way from the server to the client on every connection, and
// leaves the other: the server still gets and does what the client sends.
func (p *Proxy) HalfClose() {
	for _, c := range p.open() {
		_ = c.client.CloseWrite()
	}
}

func (p *Proxy) open() (open []*pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		open = append(open, c)
	}
	return open
}

func (p *Proxy) accept() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return // closed
		}
		p.work.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	c := &pair{client, server.(*net.TCPConn)}
	p.mu.Lock()
	if p.closed || p.refuse {
		p.mu.Unlock()
		_ = client.SetLinger(0)
		c.close()
		return
	}
	p.pairs[c] = true
	p.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { p.pass(c.server, c.client, false) })
	ways.Go(func() { p.pass(c.client, c.server, true) })
	ways.Wait()
	c.close()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// late is bytes that are due at a time.
type late struct {
	bytes []byte
	due   time.Time
}

// pass copies from src to dst, late by the delay in force when bytes came. A way
// that was half-closed is read on, as a network would, and its bytes are lost.
func (p *Proxy) pass(dst, src *net.TCPConn, back bool) {
	held := make(chan late, 1<<12)
	var writer sync.WaitGroup
	writer.Go(func() {
		for l := range held {
			if wait := time.Until(l.due); wait > 0 {
				<-time.After(wait)
			}
			_, _ = dst.Write(l.bytes) // if it is gone, the bytes are lost
		}
	})
	lost := false
	for {
		b := make([]byte, 1<<15)
		n, err := src.Read(b)
		if n > 0 {
			p.mu.Lock()
			delay := p.delay
			lost = lost || p.deaf && back
			p.mu.Unlock()
			if !lost {
				held <- late{b[:n], time.Now().Add(delay)}
			}
		}
		if err != nil {
			close(held)
			writer.Wait()
			if errors.Is(err, io.EOF) {
				_ = dst.CloseWrite()
			} else {
				_ = dst.Close()
			}
			return
		}
	}
}

// stop ends the proxy and waits for its connections.
func (p *Proxy) stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listen.Close()
	p.Cut()
	p.work.Wait()
}
