package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hotel is a queue of which each flight waits for release, and what came of its
// callers.
type hotel struct {
	*Queue[int]
	t        *testing.T
	release  chan error
	mu       sync.Mutex
	flights  []string
	outcomes []string
	callers  sync.WaitGroup
}

func openHotel(t *testing.T) *hotel {
	h := &hotel{t: t, release: make(chan error)}
	h.Queue = New(Options[int]{
		Send: func(flight, seats []int, _ time.Time) error {
			h.mu.Lock()
			h.flights = append(h.flights, fmt.Sprint(flight, seats))
			h.mu.Unlock()
			return <-h.release
		},
		Desks: 1, Senders: 1, MaxWeight: 100, MaxQueued: 100, Timeout: 50 * time.Millisecond,
	})
	return h
}

// host asks payload under print, and guest joins who does.
func (h *hotel) host(ctx context.Context, name string, payload int, print uint64) {
	h.callers.Go(func() {
		_, err := h.Host(ctx, payload, 1, 0, print)
		h.note(name, 0, err)
	})
	synctest.Wait()
}

func (h *hotel) guest(ctx context.Context, name string, want int, print uint64) (joined bool) {
	done := make(chan bool, 1)
	h.callers.Go(func() {
		got, place, joined, err := h.Join(ctx, print, func(payload int) bool { return payload == want })
		if done <- joined; joined {
			if got != want && !errors.Is(err, context.Canceled) {
				h.t.Errorf("%s joined %d, want %d", name, got, want)
			}
			h.note(name, place, err)
		}
	})
	synctest.Wait()
	select {
	case joined = <-done:
		return joined
	default:
		return true // it waits
	}
}

func (h *hotel) note(name string, place int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	word := "answered"
	switch {
	case errors.Is(err, context.Canceled) && errors.Is(err, ErrUnknown):
		word = "canceled on its way"
	case errors.Is(err, context.Canceled):
		word = "canceled"
	case err != nil:
		word = err.Error()
	}
	h.outcomes = append(h.outcomes, fmt.Sprint(name, " ", place, " ", word))
}

func (h *hotel) back(err error) {
	h.release <- err
	synctest.Wait()
}

func (h *hotel) want(flights, outcomes string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := fmt.Sprint(h.flights); got != flights {
		h.t.Errorf("flights %s, want %s", got, flights)
	}
	slices.Sort(h.outcomes) // those who are answered together are so in any order
	if got := fmt.Sprint(h.outcomes); got != outcomes {
		h.t.Errorf("outcomes %s, want %s", got, outcomes)
	}
	h.flights, h.outcomes = nil, nil
}

func inHotel(t *testing.T, f func(ctx context.Context, h *hotel)) {
	synctest.Test(t, func(t *testing.T) {
		h := openHotel(t)
		h.host(t.Context(), "first", 1, 0) // is out, so that others wait
		f(t.Context(), h)
		h.callers.Wait()
		h.Close()
	})
}

func TestGuestsFlyInOnePayload(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		if h.guest(ctx, "early", 7, 70) {
			t.Error("joined nobody")
		}
		h.host(ctx, "a", 7, 70)
		h.host(ctx, "b", 8, 80)
		for _, name := range []string{"c", "d"} {
			if !h.guest(ctx, name, 7, 70) {
				t.Errorf("%s did not join", name)
			}
		}
		if h.guest(ctx, "other", 9, 70) {
			t.Error("joined a call that asks something else")
		}
		h.back(nil)
		if h.guest(ctx, "late", 7, 70) {
			t.Error("joined a call that has left")
		}
		h.back(errors.New("boom"))
		h.want("[[1] [1] [7 8] [3 1]]", "[a 0 boom b 0 boom c 1 boom d 2 boom first 0 answered]")
	})
}

// Who gives up before the call leaves is not asked for, and those after it move up.
func TestASeatGivenUpIsNotAsked(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		gone, cancel := context.WithCancel(ctx)
		h.host(ctx, "a", 7, 70)
		h.guest(gone, "b", 7, 70)
		h.guest(ctx, "c", 7, 70)
		cancel()
		synctest.Wait()
		h.back(nil)
		h.back(nil)
		h.want("[[1] [1] [7] [2]]", "[a 0 answered b 0 canceled c 1 answered first 0 answered]")
	})
	inHotel(t, func(ctx context.Context, h *hotel) { // the host
		gone, cancel := context.WithCancel(ctx)
		h.host(gone, "a", 7, 70)
		h.guest(ctx, "b", 7, 70)
		cancel()
		synctest.Wait()
		h.back(nil)
		h.back(nil)
		h.want("[[1] [1] [7] [1]]", "[a 0 canceled b 0 answered first 0 answered]")
	})
	inHotel(t, func(ctx context.Context, h *hotel) { // all
		gone, cancel := context.WithCancel(ctx)
		h.host(gone, "a", 7, 70)
		h.guest(gone, "b", 7, 70)
		cancel()
		synctest.Wait()
		h.host(ctx, "c", 9, 90)
		h.back(nil)
		h.back(nil)
		h.mu.Lock()
		if fmt.Sprint(h.flights) != "[[1] [1] [9] [1]]" || len(h.outcomes) != 4 {
			t.Errorf("flights %s, outcomes %s", h.flights, h.outcomes)
		}
		h.mu.Unlock()
	})
}

// Who gives up on the way does not know; the others are answered.
func TestASeatGivenUpOnItsWay(t *testing.T) {
	for _, who := range []string{"host", "guest"} {
		inHotel(t, func(ctx context.Context, h *hotel) {
			gone, cancel := context.WithCancel(ctx)
			host, guest := ctx, ctx
			if who == "host" {
				host = gone
			} else {
				guest = gone
			}
			h.host(host, "host", 7, 70)
			h.guest(guest, "guest", 7, 70)
			h.back(nil)
			cancel()
			synctest.Wait()
			h.back(nil)
			want := "[first 0 answered guest 1 answered host 0 canceled on its way]"
			if who == "guest" {
				want = "[first 0 answered guest 0 canceled on its way host 0 answered]"
			}
			h.want("[[1] [1] [7] [2]]", want)
		})
	}
}

// A guest has at least half of its time: it joins nobody who will be given up before.
func TestNobodyJoinsACallThatIsLate(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		h.host(ctx, "a", 7, 70)
		<-time.After(20 * time.Millisecond) // on the bubble's clock
		if !h.guest(ctx, "b", 7, 70) {
			t.Error("did not join a call with 30 of 50 ms left")
		}
		<-time.After(10 * time.Millisecond)
		if h.guest(ctx, "c", 7, 70) {
			t.Error("joined a call with 20 of 50 ms left")
		}
		<-time.After(20 * time.Millisecond)
		synctest.Wait()
		h.want("[[1] [1]]", fmt.Sprintf("[a 0 %v b 1 %v first 0 %v]", ErrLate, ErrLate, ErrUnknown))
		h.back(nil)
	})
}

// Who sits in a call that is not back in time is told so once.
func TestGuestsAreGivenUpOnce(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		h.host(ctx, "a", 7, 70)
		h.guest(ctx, "b", 7, 70)
		h.back(nil)
		<-time.After(60 * time.Millisecond) // on the bubble's clock
		synctest.Wait()
		h.want("[[1] [1] [7] [2]]", fmt.Sprintf("[a 0 %v b 1 %v first 0 answered]", ErrUnknown, ErrUnknown))
		h.back(nil)
	})
}

// A call has so many seats and no more; who comes then hosts the next.
func TestACallIsFull(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		h.host(ctx, "host", 7, 70)
		for range maxSeats - 1 {
			if !h.guest(ctx, "guest", 7, 70) {
				t.Fatal("a call with room was not joined")
			}
		}
		if h.guest(ctx, "late", 7, 70) {
			t.Error("joined a call that is full")
		}
		h.host(ctx, "next", 7, 70)
		if !h.guest(ctx, "after", 7, 70) {
			t.Error("nobody joins the next")
		}
		h.back(nil)
		h.back(nil)
		h.mu.Lock()
		defer h.mu.Unlock()
		if got, want := fmt.Sprint(h.flights), fmt.Sprintf("[[1] [1] [7 7] [%d 2]]", maxSeats); got != want {
			t.Errorf("flights %s, want %s", got, want)
		}
	})
}

// Seats weigh, if little: a flight is bounded in who asks it.
func TestSeatsWeigh(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		for call := range 4 { // of 1 + 255/8 = 32 each, where a flight has 100
			h.host(ctx, "host", 7, uint64(70+call))
			for range maxSeats - 1 {
				h.guest(ctx, "guest", 7, uint64(70+call))
			}
		}
		h.back(nil)
		h.back(nil)
		h.back(nil)
		h.mu.Lock()
		defer h.mu.Unlock()
		if got, want := fmt.Sprint(h.flights), fmt.Sprintf("[[1] [1] [7 7 7] [%[1]d %[1]d %[1]d] [7] [%[1]d]]", maxSeats); got != want {
			t.Errorf("flights %s, want %s", got, want)
		}
	})
}

// Guests take no room: a key that everybody asks about turns nobody else away.
func TestGuestsTakeNoRoom(t *testing.T) {
	inHotel(t, func(ctx context.Context, h *hotel) {
		for call := range 4 { // 128 of weight, where the queue has room for 100
			h.host(ctx, "host", 7, uint64(70+call))
			for range maxSeats - 1 {
				h.guest(ctx, "guest", 7, uint64(70+call))
			}
		}
		h.callers.Go(func() {
			if err := h.Do(ctx, 9, 96, 1); err != nil {
				t.Errorf("another was turned away: %v", err)
			}
		})
		synctest.Wait()
		if err := h.Do(ctx, 9, 1, 1); !errors.Is(err, ErrFull) {
			t.Errorf("4 of 100 in four payloads and 96 in one, and there is room: %v", err)
		}
		for range 4 {
			h.back(nil)
		}
	})
}

// Many callers under the race detector, some of whom give up: each who stayed has a
// place of its own in what was asked, and no more was asked than came.
func TestEveryGuestHasItsPlace(t *testing.T) {
	type ask struct {
		key    int
		places [maxSeats]atomic.Int32
		seats  int
	}
	var asked, answered, gaveUp atomic.Int64
	q := New(Options[*ask]{
		Send: func(flight []*ask, seats []int, _ time.Time) error {
			for i, a := range flight {
				a.seats = seats[i]
				asked.Add(int64(seats[i]))
			}
			return nil
		},
		Desks: 2, Senders: 2, MaxWeight: 64, MaxQueued: 1 << 20, Timeout: time.Minute,
	})
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				ctx, cancel := context.WithCancel(context.Background())
				if r.IntN(10) == 0 {
					go cancel()
				}
				key := r.IntN(3)
				print := uint64(1 + key%2) // two keys share one
				a, place, joined, err := q.Join(ctx, print, func(a *ask) bool { return a.key == key })
				if !joined {
					a = &ask{key: key}
					_, err = q.Host(ctx, a, 1, 0, print)
				}
				switch {
				case err != nil:
					gaveUp.Add(1)
				case place >= a.seats:
					t.Errorf("place %d of %d", place, a.seats)
				case a.places[place].Add(1) != 1:
					t.Errorf("two at place %d", place)
				default:
					answered.Add(1)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	q.Close()
	q.empty(t)
	if n := asked.Load(); n < answered.Load() || n > answered.Load()+gaveUp.Load() {
		t.Errorf("asked for %d, answered %d, %d gave up", n, answered.Load(), gaveUp.Load())
	}
}
