package onredis

import (
	"context"
	"sync"

	"github.com/redis/rueidis"
)

// Bare is no limiter: its callers wait together for one PING, are told together, and
// ask again. What that costs, parking and waking a goroutine for each of them and a trip
// for all, is spared nobody who asks Redis.
var Bare = Limiter{"no limiter", "all who wait are told by one PING", openBare}

// bare is the callers of Bare.
type bare struct {
	client rueidis.Client
	mu     sync.Mutex
	comes  sync.Cond // somebody waits, or the end
	next   *trip     // for those who come
	ends   bool
	runs   sync.WaitGroup
}

// trip is callers who are told together.
type trip struct {
	callers int
	back    chan struct{} // closed when err is known
	err     error
}

func newTrip() *trip { return &trip{back: make(chan struct{})} }

func openBare(addr string) (func() Check, func() error, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	b := &bare{client: c, next: newTrip()}
	b.comes.L = &b.mu
	b.runs.Go(b.run)
	return shared(b.check), b.close, nil
}

func (b *bare) check(ctx context.Context, _ string) (bool, error) {
	b.mu.Lock()
	t := b.next
	if t.callers++; t.callers == 1 {
		b.comes.Signal()
	}
	b.mu.Unlock()
	select {
	case <-t.back:
		return t.err == nil, t.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (b *bare) run() {
	for {
		b.mu.Lock()
		for b.next.callers == 0 && !b.ends {
			b.comes.Wait()
		}
		t := b.next
		b.next = newTrip()
		b.mu.Unlock()
		if t.callers == 0 {
			return
		}
		t.err = b.client.Do(context.Background(), b.client.B().Ping().Build()).Error()
		close(t.back)
	}
}

func (b *bare) close() error {
	b.mu.Lock()
	b.ends = true
	b.comes.Signal()
	b.mu.Unlock()
	b.runs.Wait()
	b.client.Close()
	return nil
}
