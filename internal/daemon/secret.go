package daemon

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/redisstore"
)

// signing is the secret that signs receipts: the configured one, one of this
// process for its own memory, or one that all instances share through the store.
// That one is asked for at the start. If the store is away then, one goroutine
// asks on, with a pause; decisions never wait for it and go without receipts.
type signing struct {
	known atomic.Pointer[[]byte]
	stop  context.CancelFunc
	done  sync.WaitGroup
}

const (
	secretPause  = time.Second // between two attempts
	secretWithin = time.Second // for one
)

// openSigning finds the secret. Close ends it.
func openSigning(configured []byte, store weir.Store) *signing {
	if len(configured) > 0 {
		return signBy(configured)
	}
	if shared, ok := store.(*redisstore.Store); ok {
		return askForSecret(func(ctx context.Context) ([]byte, error) { return shared.Common(ctx, "receipts") })
	}
	own := make([]byte, 32)
	rand.Read(own) // never fails: see crypto/rand
	return signBy(own)
}

func signBy(secret []byte) *signing {
	s := &signing{stop: func() {}}
	s.known.Store(&secret)
	return s
}

// askForSecret asks once, and if that fails asks on until the secret is had.
func askForSecret(ask func(context.Context) ([]byte, error)) *signing {
	ctx, stop := context.WithCancel(context.Background())
	s := &signing{stop: stop}
	try := func() bool {
		ctx, cancel := context.WithTimeout(ctx, secretWithin)
		defer cancel()
		secret, err := ask(ctx)
		if err != nil || len(secret) == 0 {
			return false // why is told by the store's health
		}
		s.known.Store(&secret)
		return true
	}
	if try() {
		return s
	}
	s.done.Go(func() {
		tick := time.NewTicker(secretPause)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if try() {
					return
				}
			}
		}
	})
	return s
}

// secret returns the secret at once, or nothing while it cannot be had.
func (s *signing) secret() []byte {
	if p := s.known.Load(); p != nil {
		return *p
	}
	return nil
}

// close ends the asking.
func (s *signing) close() {
	s.stop()
	s.done.Wait()
}
