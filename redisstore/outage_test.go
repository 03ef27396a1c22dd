package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// until asks again until ok, for as long as a busy machine may need.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		case <-tick.C:
		}
	}
}

func (h *house) allow(key string, limit weir.Limit) weir.Decision {
	h.t.Helper()
	d, err := h.Allow(context.Background(), key, limit)
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// While the server is killed, stopped or gone, every limit gives its stated
// answer; when it is back, it decides again by itself.
func TestAnOutageGivesTheStatedAnswersAndEnds(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*testredis.Server) error }{
		"killed":  {func(s *testredis.Server) error { s.Kill(); return nil }, (*testredis.Server).Restart},
		"stopped": {(*testredis.Server).Pause, (*testredis.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			server := testredis.Start(t)
			var changes atomic.Int32
			h := open(t, server, redisstore.Options{Timeout: 50 * time.Millisecond, Notify: func(redisstore.Health) { changes.Add(1) }})
			base := weir.Per(2, time.Hour)
			until(t, "redis decides", func() bool { return h.allow("warm", weir.PerSecond(1e6)).Source == "redis" })
			if err := fault.begin(server); err != nil {
				t.Fatal(err)
			}
			until(t, "the breaker opens", func() bool {
				h.allow("warm", weir.PerSecond(1e6))
				return !h.store.Health().Up
			})
			until(t, "open limits admit", func() bool { return h.allow("o", base.OnFailure(weir.Open)).Reason == weir.FailedOpen })
			if d := h.allow("c", base.OnFailure(weir.Closed)); d.Allowed || d.Reason != weir.FailedClosed {
				t.Errorf("closed: %+v", d)
			}
			var admitted int
			for range 5 {
				if d := h.allow("l", base); d.Source != "local" {
					t.Errorf("local: %+v", d)
				} else if d.Allowed {
					admitted++
				}
			}
			if admitted != 2 {
				t.Errorf("local admitted %d of a limit of 2", admitted)
			}
			if err := fault.end(server); err != nil {
				t.Fatal(err)
			}
			until(t, "redis decides again", func() bool { return h.allow("warm", weir.PerSecond(1e6)).Source == "redis" })
			// A machine that is busy elsewhere may go through more than one outage.
			until(t, "both changes are told", func() bool { n := changes.Load(); return n >= 2 && n%2 == 0 })
			if h := h.store.Health(); !h.Up || h.Kind != "" {
				t.Errorf("health after the outage: %+v", h)
			}
		})
	}
}

// A store that starts before its server answers as stated and joins later.
func TestAStoreMayStartBeforeItsServer(t *testing.T) {
	server := testredis.Start(t)
	server.Kill()
	store, err := redisstore.Open(server.URL(), redisstore.Options{})
	if err != nil {
		t.Fatalf("a server that is not there yet: %v", err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &weir.Bill{Charges: []weir.Charge{weir.PerMinute(5).Charge("k")}}
	if err := l.Decide(context.Background(), b); err != nil || b.Source != "local" {
		t.Fatalf("without a server: %+v %v", b.Decision, err)
	}
	var se *weir.StoreError
	if !errors.As(b.Err, &se) || !se.Unreachable {
		t.Errorf("the cause is %v, want unreachable", b.Err)
	}
	if store.Health().Up {
		t.Error("health says up")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, "redis decides", func() bool {
		err := l.Decide(context.Background(), b)
		return err == nil && b.Source == "redis"
	})
}

// A flight that a stalled server carries out after its deadline charges nothing:
// its answer was given long ago.
func TestAFlightThatWasGivenUpChargesNothingLater(t *testing.T) {
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{Timeout: 100 * time.Millisecond})
	limit := weir.Per(100, time.Hour)
	until(t, "redis decides", func() bool { return h.allow("warm", limit).Source == "redis" })
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	b := bill(limit.Charge("k"))
	h.decide(b)
	var se *weir.StoreError
	if !errors.As(b.Err, &se) || se.Kind != "timeout" || !se.Unknown {
		t.Errorf("a stalled server: %v, want a timeout of unknown outcome", b.Err)
	}
	if se != nil && strings.Contains(se.Error(), "=k") {
		t.Error("the error names the key")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "redis decides again", func() bool { return h.allow("warm", limit).Source == "redis" })
	if got := h.remaining(limit, "k"); got != 100 {
		t.Errorf("%d left, want 100: what was given up was charged when the server woke", got)
	}
}
