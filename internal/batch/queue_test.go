package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// depot records flights and lets a test hold and release them.
type depot struct {
	mu      sync.Mutex
	flights [][]int
	hold    chan struct{} // nil: answer at once
	fail    error
}

func (d *depot) send(flight, _ []int, _ time.Time) error {
	d.mu.Lock()
	d.flights = append(d.flights, append([]int(nil), flight...))
	hold, err := d.hold, d.fail
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return err
}

func (d *depot) sizes() (sizes []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.flights {
		sizes = append(sizes, len(f))
	}
	return sizes
}

func open(d *depot, change func(*Options[int])) *Queue[int] {
	o := Options[int]{Send: d.send, Desks: 1, Senders: 1, MaxWeight: 8, MaxQueued: 16, Timeout: 50 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// empty fails the test unless nothing is counted as waiting: what is counted wrongly
// once is missing for as long as the process lives.
func (q *Queue[T]) empty(t *testing.T) {
	t.Helper()
	for i := range q.sums.lanes {
		if n := q.sums.lanes[i].Load(); n != 0 {
			t.Errorf("lane %d is left with %d", i, n)
		}
	}
	if asked, weight, out := q.sums.asked.Load(), q.sums.weight.Load(), q.out.Load(); asked != 0 || weight != 0 || out != 0 {
		t.Errorf("%d seats of weight %d wait and %d groups are out", asked, weight, out)
	}
}

func TestAnIdleQueueSendsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{}
		q := open(d, nil)
		defer q.Close()
		began := time.Now()
		if err := q.Do(t.Context(), 1, 1, 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("an idle queue waited %v", took)
		}
	})
}

func TestCallsGatherWhileAFlightIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		defer q.Close()
		var calls sync.WaitGroup
		for i := range 13 {
			calls.Go(func() { _ = q.Do(t.Context(), i, 1, uint8(i)) })
			synctest.Wait()
		}
		close(d.hold)
		calls.Wait()
		if got := fmt.Sprint(d.sizes()); got != "[1 8 4]" {
			t.Errorf("13 calls flew as %s, want one at once, then 8 (the weight bound), then the rest", got)
		}
		if got := fmt.Sprint(d.flights[1]); got != "[1 2 3 4 5 6 7 8]" {
			t.Errorf("flight carried %s: calls must leave in the order of arrival", got)
		}
	})
}

// While a flight is out, the next does not leave with less than it carries: not
// until it is back.
func TestAFlightLeavesNoneBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, func(o *Options[int]) { o.Senders = 2 })
		var calls sync.WaitGroup
		enter := func(n int, want string) {
			t.Helper()
			for range n {
				calls.Go(func() { _ = q.Do(context.Background(), 0, 1, 0) })
				synctest.Wait()
			}
			if got := fmt.Sprint(d.sizes()); got != want {
				t.Errorf("%s have left, want %s", got, want)
			}
		}
		back := func(want string) {
			t.Helper()
			d.hold <- struct{}{}
			synctest.Wait()
			if got := fmt.Sprint(d.sizes()); got != want {
				t.Errorf("%s have left, want %s", got, want)
			}
		}
		enter(1, "[1]")
		enter(1, "[1 1]") // as much as the last: at once
		enter(3, "[1 1]") // both are out
		back("[1 1 3]")
		back("[1 1 3]")
		enter(2, "[1 1 3]") // a sender is free, and three are out
		enter(1, "[1 1 3 3]")
		enter(2, "[1 1 3 3]")
		back("[1 1 3 3]")   // one of three is still out
		back("[1 1 3 3 2]") // nothing is: no reason to wait
		enter(1, "[1 1 3 3 2]")
		q.SetMaxWeight(1) // and a flight can carry no more
		enter(1, "[1 1 3 3 2 1]")
		close(d.hold)
		calls.Wait()
		q.Close()
	})
}

func TestAHeavyCallFliesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{}
		q := open(d, nil)
		defer q.Close()
		if err := q.Do(t.Context(), 1, 100, 0); err != nil {
			t.Errorf("a call over the weight of a flight: %v", err)
		}
	})
}

func TestAFullQueueAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		var calls sync.WaitGroup
		for i := range 17 { // one in flight, sixteen waiting
			calls.Go(func() { _ = q.Do(t.Context(), i, 1, uint8(i)) })
			synctest.Wait()
		}
		if err := q.Do(t.Context(), 99, 1, 0); !errors.Is(err, ErrFull) {
			t.Errorf("a call to a full queue: %v, want ErrFull", err)
		}
		close(d.hold)
		calls.Wait()
		q.Close()
	})
}

// One lane cannot fill the queue: past half, it is turned away at a quarter.
func TestAFloodLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		var calls sync.WaitGroup
		var refused, served atomic.Int64
		enter := func(lane uint8) {
			calls.Go(func() {
				if err := q.Do(t.Context(), int(lane), 1, lane); errors.Is(err, ErrFull) {
					refused.Add(1)
				} else if err == nil {
					served.Add(1)
				}
			})
			synctest.Wait()
		}
		for range 30 {
			enter(7)
		}
		if refused.Load() != 20 { // one in flight, nine of sixteen waiting
			t.Errorf("%d of a flood of 30 were refused, want 20", refused.Load())
		}
		for lane := range uint8(4) {
			enter(lane)
		}
		if refused.Load() != 20 {
			t.Error("a caller beside the flood was turned away from a queue with room")
		}
		close(d.hold)
		calls.Wait()
		q.Close()
		if served.Load() != 14 {
			t.Errorf("%d served, want 14", served.Load())
		}
	})
}

// Every call is answered within the timeout of its arrival, wherever it is.
func TestNobodyWaitsLongerThanTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		var calls sync.WaitGroup
		var unknown, late atomic.Int64
		for i := range 10 {
			calls.Go(func() {
				began := time.Now()
				err := q.Do(t.Context(), i, 1, uint8(i))
				if took := time.Since(began); took != 50*time.Millisecond {
					t.Errorf("call %d took %v, want exactly the timeout", i, took)
				}
				switch {
				case errors.Is(err, ErrUnknown):
					unknown.Add(1)
				case errors.Is(err, ErrLate):
					late.Add(1)
				default:
					t.Errorf("call %d: %v", i, err)
				}
			})
			<-time.After(3 * time.Millisecond) // virtual: they arrive one after another
		}
		calls.Wait()
		if unknown.Load() != 1 || late.Load() != 9 {
			t.Errorf("%d unknown and %d late, want 1 in flight and 9 withdrawn unsent", unknown.Load(), late.Load())
		}
		close(d.hold)
		synctest.Wait()
		if got := len(d.sizes()); got != 1 {
			t.Errorf("%d flights left: a withdrawn call must never be sent", got)
		}
		q.Close()
	})
}

func TestAContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		first := make(chan error, 1)
		go func() { first <- q.Do(context.Background(), 0, 1, 0) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		err := q.Do(ctx, 1, 1, 0)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknown) {
			t.Errorf("waiting: %v, want the context's error and nothing unknown", err)
		}
		close(d.hold)
		if err := <-first; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		q.Close()
		if got := len(d.sizes()); got != 1 {
			t.Errorf("%d flights, want 1: the cancelled call must not be sent", got)
		}
	})
}

func TestAContextThatEndsInFlightLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		if err := q.Do(ctx, 1, 1, 0); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("in flight: %v, want ErrUnknown and the context's error", err)
		}
		close(d.hold)
		q.Close()
	})
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil)
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				if err := q.Do(context.Background(), i, 1, 0); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		closed := make(chan struct{})
		go func() { q.Close(); close(closed) }()
		synctest.Wait()
		if err := q.Do(context.Background(), 9, 1, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
		close(d.hold)
		calls.Wait()
		<-closed
	})
}

func TestAFlightsErrorIsEveryCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		d := &depot{fail: boom}
		q := open(d, nil)
		defer q.Close()
		if err := q.Do(t.Context(), 1, 1, 0); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	})
}

// Many callers under the race detector: every payload flies exactly once.
func TestEveryCallFliesOnce(t *testing.T) {
	var flown [4000]atomic.Int32
	q := New(Options[int]{
		Send: func(flight, _ []int, _ time.Time) error {
			for _, i := range flight {
				flown[i].Add(1)
			}
			return nil
		},
		Desks: 3, Senders: 3, MaxWeight: 64, MaxQueued: 1 << 20, Timeout: time.Minute,
	})
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(flown)); i = next.Add(1) - 1 {
				if err := q.Do(context.Background(), int(i), 1, 0); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	callers.Wait()
	q.Close()
	q.empty(t)
	for i := range flown {
		if n := flown[i].Load(); n != 1 {
			t.Fatalf("call %d flew %d times", i, n)
		}
	}
}
