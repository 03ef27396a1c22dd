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

// at enters a call at a desk of the test's choice.
func (q *Queue[T]) at(t *testing.T, desk int, payload T, weight int, print uint64) *call[T] {
	t.Helper()
	c := q.calls.New().(*call[T])
	c.payload, c.weight, c.print = payload, weight, print
	if !q.desks[desk].enter(c) {
		t.Fatal("the desk is closed")
	}
	if !q.armed.Load() {
		q.arm()
	}
	q.wake()
	return c
}

// A flight takes what waits at all desks, and all are told, also where nobody comes to
// the desk any more.
func TestAFlightEmptiesAllDesks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, func(o *Options[int]) { o.Desks = 4 })
		calls := []*call[int]{q.at(t, 0, 0, 1, 0)}
		synctest.Wait() // is out
		for i := range 4 {
			calls = append(calls, q.at(t, i, i+1, 1, 0))
		}
		close(d.hold)
		for _, c := range calls {
			if err := <-c.done; err != nil {
				t.Error(err)
			}
		}
		q.Close()
		q.empty(t)
		slices.Sort(d.flights[1])
		if got := fmt.Sprint(d.flights); got != "[[0] [1 2 3 4]]" {
			t.Errorf("flights %s", got)
		}
	})
}

// Where a flight has no room for all desks, none is always the last.
func TestDesksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, func(o *Options[int]) { o.Desks, o.MaxWeight = 2, 2 })
		q.at(t, 0, 0, 1, 0)
		synctest.Wait()
		for range 4 {
			for i := range 2 {
				q.at(t, i, i, 1, 0)
			}
		}
		close(d.hold)
		q.Close()
		q.empty(t)
		if got := fmt.Sprint(d.flights); got != "[[0] [1 1] [0 0] [1 1] [0 0]]" {
			t.Errorf("flights %s", got)
		}
	})
}

// Those who came back to a desk are told by whoever comes there next, before it enters.
func TestWhoComesTellsWhoCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(&depot{}, func(o *Options[int]) { o.Senders = 0 })
		boom := errors.New("boom")
		c := q.calls.New().(*call[int])
		q.out.Store(1)
		q.desk().back.Store(&group[int]{desk: q.desk(), calls: []*call[int]{c}, err: boom})
		ctx, cancel := context.WithCancel(t.Context())
		var comes sync.WaitGroup
		comes.Go(func() { _ = q.Do(ctx, 1, 1, 0) })
		if err := <-c.done; !errors.Is(err, boom) {
			t.Error(err)
		}
		cancel()
		comes.Wait()
		q.Close()
		q.empty(t)
	})
}

// The last of a flight's calls to be told, by whomever, lets go what waits for the
// flight to be back.
func TestTheLastToldLetsTheNextLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{}
		q := open(d, nil)
		synctest.Wait() // the sender is idle
		q.out.Store(1)
		q.last.Store(5)
		c := q.at(t, 0, 1, 1, 0)
		q.desks[0].back.Store(&group[int]{desk: &q.desks[0]})
		began := time.Now()
		q.deliver(&q.desks[0])
		if err := <-c.done; err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		q.Close()
		q.empty(t)
	})
}

// A flight's deadline is that of the oldest at any desk.
func TestTheOldestAtAnyDesk(t *testing.T) {
	for _, older := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var got []time.Duration
			began := time.Now()
			hold := make(chan struct{})
			q := New(Options[int]{
				Send: func(_ []int, _ []int, deadline time.Time) error {
					got = append(got, deadline.Sub(began))
					<-hold
					return nil
				},
				Desks: 2, Senders: 1, MaxWeight: 8, MaxQueued: 16, Timeout: 50 * time.Millisecond,
			})
			first := q.at(t, 0, 0, 1, 0)
			synctest.Wait()
			<-time.After(time.Millisecond)
			calls := []*call[int]{first, q.at(t, older, 1, 1, 0)}
			<-time.After(time.Millisecond)
			calls = append(calls, q.at(t, 1-older, 2, 1, 0))
			close(hold)
			for _, c := range calls {
				if err := <-c.done; err != nil {
					t.Error(err)
				}
			}
			q.Close()
			if want := 51 * time.Millisecond; len(got) != 2 || got[1] != want {
				t.Errorf("deadlines %v, want the second %v", got, want)
			}
		})
	}
}

// Who has hardly time left for a flight does not spoil it for those who have.
func TestWhoIsNearlyLateStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &depot{hold: make(chan struct{})}
		q := open(d, nil) // of 50 ms
		q.usual = time.Second
		first := q.at(t, 0, 0, 1, 0)
		synctest.Wait()
		late := q.at(t, 0, 1, 1, 0)
		<-time.After(30 * time.Millisecond)
		fresh := q.at(t, 0, 2, 1, 0)
		<-time.After(15 * time.Millisecond) // 5 ms are left of the late one's
		close(d.hold)
		for c, want := range map[*call[int]]error{first: nil, late: ErrLate, fresh: nil} {
			if err := <-c.done; !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", c.payload, err, want)
			}
		}
		q.Close()
		q.empty(t)
		if got := fmt.Sprint(d.flights); got != "[[0] [2]]" {
			t.Errorf("flights %s", got)
		}
	})
}

// Desks are handed out to processors for as long as the process lives: the pool that
// keeps them is emptied now and then.
func TestDesksAreHandedOutForEver(t *testing.T) {
	q := open(&depot{}, func(o *Options[int]) { o.Desks, o.Senders = 3, 0 })
	defer q.Close()
	q.lent.Store(1<<32 - 5)
	for range 10 {
		q.near.New()
	}
	q.lent.Store(1<<31 - 5)
	for range 10 {
		q.near.New()
	}
}

// A call that was given up, taken or late has no guests any more, even if it is used
// anew at once.
func TestNobodySitsInACallThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, leave := range map[string]func(q *Queue[int], c *call[int]){
			"given up": func(q *Queue[int], c *call[int]) {
				for seat := range 17 {
					_, _ = c.desk.stand(c, seat, context.Canceled)
				}
			},
			"taken": func(q *Queue[int], c *call[int]) { // one of two: in the midst of a turn
				q.desks[0].cut(&group[int]{}, 1, true)
			},
			"taken with all": func(q *Queue[int], c *call[int]) { q.desks[0].cut(&group[int]{}, 9, true) },
			"late":           func(q *Queue[int], c *call[int]) { q.desks[0].late(time.Since(q.began) + time.Millisecond) },
		} {
			q := open(&depot{}, func(o *Options[int]) { o.Senders, o.Timeout = 0, time.Hour })
			c := q.at(t, 0, 7, 1, 70)
			c.deadline = time.Since(q.began)
			q.at(t, 0, 8, 1, 80)
			c.deadline = time.Since(q.began) + time.Hour
			for range 16 { // who weigh more than the payload
				if sat, _ := q.desks[0].sit(70, func(int) bool { return true }); sat != c {
					t.Fatal("no seat")
				}
			}
			c.deadline = time.Since(q.began)
			leave(q, c)
			if waits := int64(len(q.desks[0].waiting)); q.sums.weight.Load() != waits || q.sums.asked.Load() != waits {
				t.Errorf("%s: %d seats of weight %d where %d calls wait", name, q.sums.asked.Load(), q.sums.weight.Load(), waits)
			}
			c.over.Store(false) // as when used anew
			c.deadline = time.Since(q.began) + time.Hour
			if sat, _ := q.desks[0].sit(70, func(int) bool { return true }); sat != nil {
				t.Errorf("%s: somebody sat down", name)
			}
			q.desks[0].cut(&group[int]{}, 9, true)
			if q.sums.asked.Load() != 0 || q.sums.weight.Load() != 0 {
				t.Errorf("%s: %d seats of weight %d are left", name, q.sums.asked.Load(), q.sums.weight.Load())
			}
			q.Close()
		}
	})
}
