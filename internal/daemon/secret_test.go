package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While the secret of receipts cannot be had, one asks for it, with a pause, and
// nobody waits: many takes are one question to the store at a time.
func TestOneAsksForTheSecretOfReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var back atomic.Bool
		s := askForSecret(func(ctx context.Context) ([]byte, error) {
			asked.Add(1)
			if !back.Load() {
				<-ctx.Done() // stalled
				return nil, errors.New("away")
			}
			return []byte("secret"), nil
		})
		defer s.close()
		for range 10 {
			for range 100 {
				began := time.Now()
				if s.secret() != nil || time.Since(began) != 0 {
					t.Fatal("a take waited, or has a secret")
				}
			}
			<-time.After(10 * time.Millisecond)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		back.Store(true)
		<-time.After(2 * secretPause)
		synctest.Wait()
		if string(s.secret()) != "secret" || asked.Load() != 2 {
			t.Errorf("%q after %d questions", s.secret(), asked.Load())
		}
		<-time.After(time.Minute)
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}
