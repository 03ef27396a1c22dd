package regions

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/redisstore"
)

// Options configures a Service.
type Options struct {
	Region string // this region's name; letters, digits, . _ -
	// Peers are the other regions and where their stores are.
	Peers map[string]Peer
	// Interval is how often changed keys are told, 200 ms if 0; 100 to 500 ms is
	// usual.
	Interval time.Duration
	// Lag is how long a message takes one way, as far as the promise counts on
	// it; 250 ms if 0.
	Lag time.Duration

	// ShareBeat is how often shares are looked after, a second if 0; all regions need
	// the same.
	ShareBeat time.Duration

	Store *redisstore.Store  // this region's
	URL   string             // where it is
	Conn  redisconn.Settings // what the URL cannot carry
	// OnError is told of what went wrong, once when a kind of fault begins and
	// once (with nil) when it has ended, or nil. While the service is closed, it is
	// told of what a peer will not hear any more.
	OnError func(what string, err error)
}

// Peer is where another region's store is, and how to be let in. It may use
// nothing of how this region's own is used: that is nobody else's to know.
type Peer struct {
	URL  string             // as redisstore.Open takes it; it may hold a user and a password
	Conn redisconn.Settings // what the URL cannot carry
}

// String says nothing: a URL may hold a password.
func (Peer) String() string { return "a region's store" }

// The defaults of Options.
const (
	DefaultInterval = 200 * time.Millisecond
	DefaultLag      = 250 * time.Millisecond
)

// Service carries an Exchange's letters between regions, over streams in their
// stores. It is safe for concurrent use.
type Service struct {
	*Exchange
	o        Options
	id       string // of this instance among the region's
	home     *redisconn.Conn
	away     map[string]*redisconn.Conn
	keeper   *keeper
	faults   faults
	most     string // letters in a stream
	stop     context.CancelFunc
	done     sync.WaitGroup
	farewell time.Duration // see its constant
	sending  sync.WaitGroup
	stopping chan struct{}
	told     chan struct{} // closed when the last letters have gone
	close    func() error
}

var regionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// Start begins to exchange. A peer that cannot be reached is no error: what it
// must hear waits. The caller closes the service and after that the store, or the layer
// of Service.Front.
func Start(o Options) (*Service, error) {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Lag <= 0 {
		o.Lag = DefaultLag
	}
	settings := Settings{Region: o.Region, Interval: o.Interval, Lag: o.Lag, ShareBeat: o.ShareBeat}
	for name := range o.Peers {
		settings.Peers = append(settings.Peers, name)
	}
	for _, name := range append([]string{o.Region}, settings.Peers...) {
		if !regionName.MatchString(name) {
			return nil, fmt.Errorf("regions: %q is no name of a region; use letters, digits, . _ and -", name)
		}
	}
	id := make([]byte, 9)
	rand.Read(id) // never fails: see crypto/rand
	s := &Service{
		Exchange: NewExchange(o.Store, settings), o: o, id: base64.RawURLEncoding.EncodeToString(id),
		away: map[string]*redisconn.Conn{}, most: strconv.Itoa(streamLen), farewell: farewell, stopping: make(chan struct{}), told: make(chan struct{}),
	}
	s.faults = faults{tell: o.OnError, now: s.settings.Now, calm: calm, known: map[string]*fault{}}
	s.close = sync.OnceValue(s.end)
	o.Conn.Response, o.Conn.Cancel = max(o.Conn.Response, patience), true
	var err error
	if s.home, err = redisconn.Open(o.URL, o.Conn); err != nil {
		return nil, fmt.Errorf("regions: %w", err)
	}
	if err := s.openPeers(); err != nil {
		return nil, errors.Join(err, s.closeConns())
	}
	s.keeper = newKeeper(s)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.keeper.begin(ctx)
	s.done.Go(func() { s.tell(ctx) })
	s.done.Go(func() { s.listen(ctx) })
	s.done.Go(func() { s.keeper.keep(ctx) })
	return s, nil
}

// openPeers tries all peers at once: those that do not answer are tried again in
// the background, and a start waits for one time limit and not for the sum.
func (s *Service) openPeers() error {
	var mu sync.Mutex
	var all sync.WaitGroup
	var errs []error
	for name, peer := range s.o.Peers {
		peer.Conn.Response, peer.Conn.Dial, peer.Conn.Cancel = max(peer.Conn.Response, patience), patience, true
		if peer.Conn.Connections == 0 {
			peer.Conn.Connections = 1 // for a few letters; and each that is silent keeps Close waiting
		}
		all.Go(func() {
			conn, err := redisconn.Open(peer.URL, peer.Conn)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("regions: %s: %w", name, err))
				return
			}
			s.away[name] = conn
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// key names one of the keys that are a region's and no balance's.
func (s *Service) key(name string) string { return s.o.Store.Prefix() + "1:{regions}" + name }

// report tells OnError when a kind of fault begins and when it has ended.
func (s *Service) report(what string, err error) {
	if !errors.Is(err, context.Canceled) {
		s.faults.met(what, err)
	}
}

// Close tells what was taken last and ends the exchange. It goes on until nothing is
// due to any peer, for a second at most; what is given up then, OnError is told.
// Connections to silent peers take two seconds more. It may be called more than
// once. The store stays open.
func (s *Service) Close() error { return s.close() }

func (s *Service) end() error {
	close(s.stopping)
	<-s.told
	s.stop()
	s.done.Wait()
	if client, err := s.home.Client(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		// Where this fails, others take the instance out when it was silent for long.
		_ = s.leave(ctx, client, s.id)
	}
	return s.closeConns()
}

// closeConns closes all at once: one that does not answer keeps none waiting.
func (s *Service) closeConns() error {
	conns := append(slices.Collect(maps.Values(s.away)), s.home)
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i, c := range conns {
		all.Go(func() { errs[i] = c.Close() })
	}
	all.Wait()
	return errors.Join(errs...)
}
