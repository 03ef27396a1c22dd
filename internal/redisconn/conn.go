// Package redisconn turns a store URL into a client: single server, Sentinel or
// Cluster, with TLS, time limits, and a first connection that may come late.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"math/bits"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// ErrDown says that no server could be connected to yet.
var ErrDown = errors.New("no connection to the store yet")

// DownError is ErrDown with what the last attempt said.
type DownError struct{ Err error }

// Error returns both texts.
func (e *DownError) Error() string { return ErrDown.Error() + ": " + e.Err.Error() }

// Unwrap returns ErrDown and the cause.
func (e *DownError) Unwrap() []error { return []error{ErrDown, e.Err} }

// Settings are what a URL cannot carry. The zero value is right for most.
type Settings struct {
	Username string
	Password string
	TLS      *tls.Config // for rediss:// and, if set, any other
	// Connections is how many connections to a node, a power of two up to
	// MostConnections; what lies between is rounded down. The client's own choice
	// if 0.
	Connections int
	// Response is how long an answer may take before the connection is given
	// up; 500 ms if 0. Decisions have their own, shorter limit.
	Response time.Duration
	// Dial is how long connecting may take, 250 ms if 0: a server far away needs
	// several trips for it.
	Dial time.Duration
	// Cancel lets a call end with its context at once. Without it a call that is alone
	// on its connection ends at its deadline, or when the server answers.
	Cancel bool
	// CacheBytes, if not 0, makes a client for reading what seldom changes: it
	// keeps up to so many bytes of what was asked for by DoCache, and the server
	// tells it of changes. Where the server does not (no RESP3, no permission to
	// track) nothing is kept and every read goes there. Such a client has one
	// connection to a node and may send a read again.
	CacheBytes int
}

// How long the client waits: a dead peer is found out in a fraction of a second,
// since every decision has its own, much shorter deadline.
const (
	dialTimeout  = 250 * time.Millisecond
	writeTimeout = 500 * time.Millisecond
	quiet        = 500 * time.Millisecond // a connection that says nothing is pinged, and given up after writeTimeout more
	renewPause   = 500 * time.Millisecond
	redirections = 3
	bufferBytes  = 1 << 18
)

// Conn is a client that may not be there yet. It is safe for concurrent use.
type Conn struct {
	client  atomic.Pointer[rueidis.Client]
	fault   atomic.Pointer[DownError] // of the last attempt to connect
	mu      sync.Mutex                // held while renewing
	renewed time.Time
	option  rueidis.ClientOption
	cluster bool
	open    context.Context // until Close
	stop    context.CancelFunc
	dialer  sync.WaitGroup
}

// Open parses url and connects. If that fails it keeps trying in the background
// and Client returns ErrDown meanwhile; only a URL that makes no sense, and a
// server that refuses us (RefusedError), are errors.
func Open(url string, s Settings) (*Conn, error) {
	option, cluster, err := Parse(url)
	if err != nil {
		return nil, err
	}
	apply(&option, s)
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{option: option, cluster: cluster, open: ctx, stop: cancel}
	if err := c.dial(); err != nil {
		if fault := refused(err); fault != nil {
			cancel()
			return nil, fault
		}
		c.dialer.Go(func() { c.keepDialing(ctx) })
	}
	return c, nil
}

func apply(o *rueidis.ClientOption, s Settings) {
	o.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: quiet}
	o.ConnWriteTimeout = max(writeTimeout, s.Response)
	o.ReadBufferEachConn, o.WriteBufferEachConn = bufferBytes, bufferBytes
	o.ClusterOption.MaxMovedRedirections = redirections
	o.DisableRetry = true // a script is never sent again by the client
	o.DisableCache = true // balances change at every use
	o.ClientName = "weir"
	o.AlwaysPipelining = s.Cancel
	if s.Username != "" {
		o.Username = s.Username
	}
	if s.Password != "" {
		o.Password = s.Password
	}
	if s.Dial > 0 {
		o.Dialer.Timeout = s.Dial
	}
	if s.TLS != nil {
		o.TLSConfig = s.TLS
	}
	o.PipelineMultiplex = multiplex(s.Connections)
	if s.CacheBytes > 0 {
		o.DisableRetry, o.DisableCache = false, false
		o.CacheSizeEachConn = s.CacheBytes
		o.PipelineMultiplex = oneConnection
	}
}

// oneConnection is how rueidis spells it; 0 is its own choice.
const oneConnection = -1

// MostConnections is the most that a client makes to a node.
const MostConnections = 1 << rueidis.MaxPipelineMultiplex

// multiplex spells a number of connections as rueidis does: the exponent of the
// power of two, rounded down.
func multiplex(connections int) int {
	if connections == 1 {
		return oneConnection
	}
	return max(0, bits.Len(uint(min(connections, MostConnections)))-1)
}

// dial is called by one goroutine at a time.
func (c *Conn) dial() error {
	option := c.option
	var a attempt
	option.DialCtxFn = a.until(c.open, option.DialCtxFn)
	client, err := rueidis.NewClient(option)
	if errors.Is(err, rueidis.ErrNoCache) {
		c.option.DisableCache, option.DisableCache = true, true
		client, err = rueidis.NewClient(option)
	}
	a.over()
	if err != nil {
		if client != nil {
			client.Close()
		}
		c.fault.Store(&DownError{err})
		return err
	}
	c.client.Store(&client)
	return nil
}

// Renew drops the connections and makes new ones, to whoever the name leads to
// now. It is for a server that has become a replica: it still answers, so nothing
// else would ever leave it. It does so twice a second at most.
func (c *Conn) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.client.Load()
	if old == nil || time.Since(c.renewed) < renewPause {
		return
	}
	c.renewed = time.Now()
	if c.dial() == nil {
		(*old).Close()
	}
}

// Came takes note of what came of a command: where it was refused because the server
// has become a replica, the connections are renewed. It returns err.
func (c *Conn) Came(err error) error {
	answer, ok := rueidis.IsRedisErr(err)
	if ok && !c.cluster && (strings.Contains(answer.Error(), "READONLY ") || strings.HasPrefix(answer.Error(), "MASTERDOWN")) {
		c.Renew()
	}
	return err
}

// keepDialing tries until it succeeds. Its pauses are jittered, so that many
// instances do not come back at one moment.
func (c *Conn) keepDialing(ctx context.Context) {
	pause := 100 * time.Millisecond
	for {
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if c.dial() == nil {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// Client returns the client, or before the first connection ErrDown, if there is
// a cause as a *DownError.
func (c *Conn) Client() (rueidis.Client, error) {
	if p := c.client.Load(); p != nil {
		return *p, nil
	}
	if fault := c.fault.Load(); fault != nil {
		return nil, fault
	}
	return nil, ErrDown
}

// Topology is how servers are found.
type Topology uint8

// The topologies.
const (
	Single   Topology = iota
	Sentinel          // one primary, named by sentinels
	Cluster           // keys are spread over slots
)

// Topology returns how the server is found.
func (c *Conn) Topology() Topology {
	switch {
	case c.cluster:
		return Cluster
	case c.option.Sentinel.MasterSet != "":
		return Sentinel
	}
	return Single
}

// Cluster reports whether keys are spread over slots.
func (c *Conn) Cluster() bool { return c.cluster }

// Close ends the dialing and the client.
func (c *Conn) Close() error {
	c.stop()
	c.dialer.Wait()
	if p := c.client.Load(); p != nil {
		(*p).Close()
	}
	return nil
}
