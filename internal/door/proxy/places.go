package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// How many connections to upstreams are open at a time is bounded, apart from how
// many clients there are: most clients are idle and need none. A request that
// needs a connection over the bound waits for one, and is answered 503 if none
// comes free in time. Opening it instead could take the last descriptor of the
// process, and then nobody gets in, nor does the store get asked.
//
// Health checks have connections of their own, one an upstream, so that a proxy
// which is busy does not take its upstreams for ill.

const (
	placesUnlessSaid = 1024
	placeWithin      = 2 * time.Second
	// how often connections that nobody uses are closed while requests wait; those
	// of one upstream are of no use to a request for another.
	freeEvery = 100 * time.Millisecond
)

// errNoPlace is a request that no connection came free for. It has not been sent.
var errNoPlace = errors.New("all connections to upstreams are in use")

// places hands out the right to have a connection open. It is safe for concurrent
// use.
type places struct {
	taken   chan struct{}
	waiting atomic.Int64
	freeing atomic.Bool
	told    atomic.Bool // that all are taken; until a quarter is free again
	log     *slog.Logger
	free    func() // closes connections that nobody uses
}

func newPlaces(most int, log *slog.Logger) *places {
	if most <= 0 {
		most = placesUnlessSaid
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &places{taken: make(chan struct{}, most), log: log}
}

// take takes a place, or returns errNoPlace if none comes free in time.
func (p *places) take(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
	}
	if !p.told.Swap(true) {
		p.log.Warn("all connections to upstreams are in use; requests wait for one, and are answered 503 if none comes free",
			"connections", cap(p.taken), "wait", placeWithin.String())
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	if p.freeing.CompareAndSwap(false, true) {
		go p.freeIdle()
	}
	late := time.NewTimer(placeWithin)
	defer late.Stop()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-late.C:
		return errNoPlace
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives a place back.
func (p *places) leave() {
	<-p.taken
	if len(p.taken) <= cap(p.taken)*3/4 && p.told.Load() {
		p.told.Store(false)
	}
}

// freeIdle closes connections that nobody uses for as long as dials wait. A dial goes
// on when its request got another connection meanwhile, so that may be for a place
// that nobody needs any more; it is over after placeWithin.
func (p *places) freeIdle() {
	for {
		for p.waiting.Load() > 0 {
			p.free()
			<-time.After(freeEvery)
		}
		p.freeing.Store(false)
		if p.waiting.Load() == 0 || !p.freeing.CompareAndSwap(false, true) {
			return
		}
	}
}

// dial returns a dialer whose connections have a place until they are closed.
func (p *places) dial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := p.take(ctx); err != nil {
			return nil, err
		}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			p.leave()
			return nil, err
		}
		return &placed{TCPConn: conn.(*net.TCPConn), places: p}, nil // upstreams are dialed by TCP alone
	}
}

// placed is a connection with a place.
type placed struct {
	*net.TCPConn
	places *places
	left   atomic.Bool
}

// Close implements net.Conn.
func (c *placed) Close() error {
	err := c.TCPConn.Close()
	if !c.left.Swap(true) {
		c.places.leave()
	}
	return err
}
