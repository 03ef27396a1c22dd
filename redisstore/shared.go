package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"sync"
	"sync/atomic"
	"time"
)

// What all instances on one prefix have in common beside balances.

// Common returns a random secret of 256 bits that all instances on this prefix
// share under name: the first to ask makes it, and Redis keeps it. While the
// breaker refuses, its error is the answer at once.
func (s *Store) Common(ctx context.Context, name string) ([]byte, error) {
	if se := s.line(0).breaker.admit(); se != nil {
		return nil, se
	}
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails: see crypto/rand
	kept, err := s.run(ctx, fingerprint, []string{s.keys.prefix + "1:{" + name + "}"},
		[]string{base64.RawURLEncoding.EncodeToString(fresh)})
	if err != nil {
		return nil, explain(err)
	}
	return base64.RawURLEncoding.DecodeString(kept)
}

// Heartbeats counts the instances that are alive, for limits that answer an
// outage with their share.
//
// Each instance writes itself into one sorted set every beat; who has not been
// seen for several beats is gone. While the server is away the last count stands:
// the instances are as many as before, and it is they who must share.
type Heartbeats struct {
	store *Store
	id    string
	alive atomic.Int32
	stop  context.CancelFunc
	done  sync.WaitGroup
}

const (
	heartbeat = time.Second
	deadAfter = 5 * heartbeat
)

// Heartbeats starts to tell the other instances of this one. Close ends it.
func (s *Store) Heartbeats() *Heartbeats {
	id := make([]byte, 12)
	rand.Read(id)
	ctx, cancel := context.WithCancel(context.Background())
	h := &Heartbeats{store: s, id: base64.RawURLEncoding.EncodeToString(id), stop: cancel}
	h.alive.Store(1)
	h.beat(ctx, deadAfter)
	h.done.Go(func() { h.keepBeating(ctx) })
	return h
}

// Instances returns how many instances were alive when last counted, this one
// included.
func (h *Heartbeats) Instances() int { return int(h.alive.Load()) }

func (h *Heartbeats) keepBeating(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.beat(ctx, deadAfter)
		}
	}
}

// beat writes this instance down for as long as it lives, and counts. A beat that
// fails leaves the count as it was.
func (h *Heartbeats) beat(ctx context.Context, life time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	s := h.store
	if s.line(0).breaker.admit() != nil {
		return
	}
	reply, err := s.run(ctx, instances, []string{s.keys.prefix + "1:{instances}"}, []string{h.id, formatInt(life.Microseconds())})
	if err != nil {
		return
	}
	in := reader{rest: reply}
	in.array()
	in.int() // the clock
	if n := in.int(); in.err == nil {
		h.alive.Store(int32(max(n, 1)))
	}
}

// Close takes this instance out of the count.
func (h *Heartbeats) Close() error {
	h.stop()
	h.done.Wait()
	h.beat(context.Background(), 0)
	return nil
}
