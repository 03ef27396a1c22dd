package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// expiry returns the least time, of a few, in which a stalled queue of n calls
// gives them all up.
func expiry(t *testing.T, n int) time.Duration {
	t.Helper()
	least := time.Hour
	for range 3 {
		q := open(&depot{}, func(o *Options[int]) { o.Senders, o.MaxQueued, o.Timeout = 0, n, time.Hour })
		calls := make([]*call[int], n)
		for i := range calls {
			c := q.calls.Get().(*call[int])
			c.weight, c.lane = 1, uint8(i)
			if err := q.enter(c); err != nil {
				t.Fatal(err)
			}
			c.deadline = 1
			calls[i] = c
		}
		began := time.Now()
		q.expire()
		least = min(least, time.Since(began))
		for _, c := range calls {
			if err := <-c.done; !errors.Is(err, ErrLate) {
				t.Fatal(err)
			}
		}
		if d := &q.desks[0]; len(d.waiting) != 0 || d.weight != 0 || d.asked != 0 || q.armed.Load() {
			t.Fatalf("%d calls, weight %d, %d seats, armed %v are left", len(d.waiting), d.weight, d.asked, q.armed.Load())
		}
		q.empty(t)
		q.Close()
	}
	return least
}

// A stall ends for all who wait at once: the time grows with their number, and not
// with its square, since nobody else gets the lock meanwhile.
func TestAStallIsOverAtOnce(t *testing.T) {
	const few, times = 1 << 12, 32
	short, long := expiry(t, few), expiry(t, times*few)
	if long > 8*times*short {
		t.Errorf("%d calls took %v, %d calls %v: %d times as many", few, short, times*few, long, times)
	}
}

// Who still has time, and who came later, stay when those before are given up.
func TestOnlyWhoIsLateIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		ends := make(chan string, 4)
		do := func(n int) {
			go func() { ends <- fmt.Sprint(n, " ", q.Do(t.Context(), n, 1, 0)) }()
			synctest.Wait()
		}
		do(1) // in flight
		do(2)
		<-time.After(30 * time.Millisecond)
		do(3)
		do(4)
		given := []string{<-ends, <-ends}
		slices.Sort(given)
		if want := []string{fmt.Sprint(1, " ", ErrUnknown), fmt.Sprint(2, " ", ErrLate)}; !slices.Equal(given, want) {
			t.Errorf("%q, want %q", given, want)
		}
		synctest.Wait()
		close(d.hold)
		for range 2 {
			if got := <-ends; got != "3 <nil>" && got != "4 <nil>" {
				t.Error(got)
			}
		}
		q.Close()
		if got := fmt.Sprint(d.flights); got != "[[1] [3 4]]" {
			t.Errorf("flights %s", got)
		}
	})
}

// A flight that does not come back holds up nobody: light traffic goes on by the
// other sender.
func TestAFlightThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		var flights int
		var mu sync.Mutex
		q := New(Options[int]{
			Send: func(flight, _ []int, _ time.Time) error {
				mu.Lock()
				flights++
				first := flights == 2 // the one of eight
				mu.Unlock()
				if first {
					<-hang
				}
				<-time.After(100 * time.Microsecond) // on the bubble's clock
				return nil
			},
			Desks: 2, Senders: 2, MaxWeight: 64, MaxQueued: 64, Timeout: 50 * time.Millisecond,
		})
		var calls sync.WaitGroup
		do := func() { calls.Go(func() { _ = q.Do(context.Background(), 0, 1, 0) }) }
		for range 9 {
			do() // one leaves, the others gather and hang
		}
		synctest.Wait()
		<-time.After(5 * time.Millisecond)
		for range 7 {
			began := time.Now()
			if err := q.Do(context.Background(), 1, 1, 0); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 2*time.Millisecond {
				t.Errorf("a lone call took %v beside a flight that hangs", took)
			}
			<-time.After(6 * time.Millisecond)
		}
		close(hang)
		calls.Wait()
		q.Close()
	})
}

// A larger weight lets go what had to wait for it.
func TestALargerWeightWakesASender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, func(o *Options[int]) { o.Senders, o.MaxWeight, o.MaxQueued = 2, 100, 100 })
		var calls sync.WaitGroup
		for _, weight := range []int{1, 1, 5, 5, 5, 5} { // two fly, then all that waits
			calls.Go(func() { _ = q.Do(context.Background(), 0, weight, 0) })
			synctest.Wait()
		}
		d.hold <- struct{}{}
		synctest.Wait() // [1 1 4]: two are out
		d.hold <- struct{}{}
		synctest.Wait() // one is out, and a sender is free
		calls.Go(func() { _ = q.Do(context.Background(), 0, 8, 0) })
		synctest.Wait()
		before := len(d.sizes())
		q.SetMaxWeight(8)
		synctest.Wait()
		if after := len(d.sizes()); after != before+1 {
			t.Errorf("%d flights before and %d after the weight that may leave fell to what waits", before, after)
		}
		close(d.hold)
		calls.Wait()
		q.Close()
	})
}
