// Package faults breaks real servers under a steady load and holds against it
// what is promised of outages: the answers stated, in time, nothing charged
// twice, nothing admitted over a limit that may not be, and back by itself.
package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
)

// kept is a server that keeps what it acknowledged through a kill.
var kept = []string{"appendonly yes", "appendfsync no", `save ""`}

func admin(t *testing.T, s *scene, args ...string) {
	t.Helper()
	if _, err := s.admin.Do(args...); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func tell(args ...string) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) { admin(t, s, args...) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// again does something every so often until the scene stops it.
func again(every time.Duration, do func(*testing.T, *scene)) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() {
			for ctx.Err() == nil {
				do(t, s)
				select {
				case <-ctx.Done():
				case <-time.After(every):
				}
			}
		})
		s.stop = func() { cancel(); work.Wait() }
	}
}

func stop(_ *testing.T, s *scene) { s.stop() }

func steps(d time.Duration) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) { s.clock.Set(t, d) }
}

func restart(t *testing.T, s *scene) { must(t, s.servers[0].Restart()) }

var (
	away      = []string{"timeout", "unreachable"}
	restarted = append([]string{"loading"}, away...)
)

// singles are the faults of one server.
var singles = []fault{
	{name: "kill -9", kinds: restarted, hold: either(time.Second, 5*time.Second),
		begin: func(_ *testing.T, s *scene) { s.servers[0].Kill() }, end: restart},
	{name: "SIGSTOP", kinds: away, hold: either(3*time.Second, 10*time.Second),
		begin: func(t *testing.T, s *scene) { must(t, s.servers[0].Pause()) },
		end:   func(t *testing.T, s *scene) { must(t, s.servers[0].Resume()) }},
	{name: "restart with an empty script cache", kinds: restarted, begin: restart},
	{name: "loading its data", kinds: []string{"timeout", "loading"}, begin: func(t *testing.T, s *scene) {
		admin(t, s, "DEBUG", "POPULATE", "4000", "junk", "100")
		admin(t, s, "CONFIG", "SET", "key-load-delay", "400")
		admin(t, s, "DEBUG", "RELOAD") // returns when all is loaded
	}, end: tell("CONFIG", "SET", "key-load-delay", "0")},
	{name: "SCRIPT FLUSH, again and again", hold: either(time.Second, 5*time.Second), patient: true,
		begin: again(20*time.Millisecond, tell("SCRIPT", "FLUSH")), end: stop},
	{name: "FLUSHALL", loses: everything, patient: true, begin: tell("FLUSHALL"), hold: either(time.Second, 2*time.Second)},
	{name: "maxmemory reached, noeviction", patient: true, hold: either(time.Second, 5*time.Second),
		begin: tell("CONFIG", "SET", "maxmemory", "1"), end: tell("CONFIG", "SET", "maxmemory", "0")},
	{name: "demoted to a replica (READONLY)", kinds: []string{"readonly"}, hold: either(time.Second, 5*time.Second),
		begin: tell("REPLICAOF", "127.0.0.1", "1"), end: tell("REPLICAOF", "NO", "ONE")},
	{name: "a replica without its primary (MASTERDOWN)", kinds: []string{"masterdown"}, hold: either(time.Second, 5*time.Second),
		begin: func(t *testing.T, s *scene) {
			admin(t, s, "CONFIG", "SET", "replica-serve-stale-data", "no")
			admin(t, s, "REPLICAOF", "127.0.0.1", "1")
		}, end: tell("REPLICAOF", "NO", "ONE")},
	{name: "too few replicas (NOREPLICAS)", kinds: []string{"noreplicas"}, hold: either(time.Second, 5*time.Second),
		begin: tell("CONFIG", "SET", "min-replicas-to-write", "1"), end: tell("CONFIG", "SET", "min-replicas-to-write", "0")},
	{name: "somebody's script does not end (BUSY)", kinds: []string{"timeout", "busy"}, hold: either(time.Second, 5*time.Second),
		begin: func(t *testing.T, s *scene) {
			admin(t, s, "CONFIG", "SET", "busy-reply-threshold", "100")
			var work sync.WaitGroup
			work.Go(func() { _, _ = s.servers[0].Do("EVAL", "while true do end", "0") }) // ends by SCRIPT KILL, as an error
			s.stop = work.Wait
		},
		end: func(t *testing.T, s *scene) {
			await(t, "the script is killed", func() bool { _, err := s.admin.Do("SCRIPT", "KILL"); return err == nil })
			s.stop()
		}},
	{name: "ACL without EVALSHA (NOPERM)", kinds: []string{"noperm"}, hold: either(time.Second, 5*time.Second),
		begin: tell("ACL", "SETUSER", "default", "-evalsha"), end: tell("ACL", "SETUSER", "default", "+evalsha")},
	{name: "a password from now on (NOAUTH)", kinds: []string{"noperm", "timeout", "unreachable"}, hold: either(time.Second, 5*time.Second),
		begin: func(t *testing.T, s *scene) {
			admin(t, s, "CONFIG", "SET", "requirepass", "s3cret")
			admin(t, s, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}, end: tell("CONFIG", "SET", "requirepass", "")},
	{name: "a full queue", kinds: []string{"overloaded", "timeout"}, hold: either(500*time.Millisecond, 2*time.Second), begin: fillQueue,
		end: func(t *testing.T, s *scene) { must(t, s.servers[0].Resume()); s.stop() }},
	{name: "clock +300 ms", patient: true, hold: either(time.Second, 5*time.Second), begin: steps(300 * time.Millisecond)},
	{name: "clock -300 ms", patient: true, hold: either(time.Second, 5*time.Second), begin: steps(-300 * time.Millisecond)},
	{name: "clock +1 h", patient: true, hold: either(time.Second, 5*time.Second), begin: steps(time.Hour)},
	{name: "clock -1 h", patient: true, hold: either(time.Second, 5*time.Second), begin: steps(-time.Hour)},
	{name: "500 ms latency", kinds: away, hold: either(1500*time.Millisecond, 5*time.Second),
		begin: func(_ *testing.T, s *scene) { s.proxy.Delay(500 * time.Millisecond) },
		end:   func(_ *testing.T, s *scene) { s.proxy.Delay(0) }},
	{name: "connections cut, again and again", kinds: away, hold: either(time.Second, 5*time.Second),
		begin: again(30*time.Millisecond, func(_ *testing.T, s *scene) { s.proxy.Cut() }), end: stop},
	{name: "connections refused", kinds: away, hold: either(time.Second, 5*time.Second),
		begin: func(_ *testing.T, s *scene) { s.proxy.Refuse(true) },
		end:   func(_ *testing.T, s *scene) { s.proxy.Refuse(false) }},
	{name: "connections half-closed", kinds: away, hold: either(time.Second, 5*time.Second),
		begin: again(100*time.Millisecond, func(_ *testing.T, s *scene) { s.proxy.HalfClose() }), end: stop},
	{name: "answers lost, requests done", kinds: away, hold: either(time.Second, 5*time.Second),
		begin: func(_ *testing.T, s *scene) { s.proxy.Deaf(true) },
		end:   func(_ *testing.T, s *scene) { s.proxy.Deaf(false) }},
}

func label(name string) string { return strings.ReplaceAll(name, " ", "_") }

// TestSingle puts every fault of one server on a server of its own.
func TestSingle(t *testing.T) {
	for _, f := range fewer(singles, 1) {
		t.Run(label(f.name), func(t *testing.T) {
			t.Parallel()
			clock := testredis.NewClock(t)
			server := clock.Start(t, append([]string{"enable-debug-command local", "loading-process-events-interval-bytes 1024"}, kept...)...)
			s := &scene{servers: []*testredis.Server{server}, clock: clock}
			s.proxy = testredis.StartProxy(t, server.Addr)
			s.url = s.proxy.URL()
			var err error
			s.admin, err = testredis.Dial(server.Addr)
			must(t, err)
			t.Cleanup(func() { _ = s.admin.Close() })
			during(t, f, s)
		})
	}
}

// fillQueue stops the server and asks more at once than may wait for it: logs,
// which weigh much. What is turned away is answered at once, by a local count.
func fillQueue(t *testing.T, s *scene) {
	must(t, s.servers[0].Pause())
	heavy := weir.Per(5000, year).Using(algo.SlidingLog).OnFailure(weir.Open)
	var work sync.WaitGroup
	var turnedAway atomic.Int64
	for i := range 200 {
		b := &weir.Bill{}
		for j := range 32 {
			c := heavy.Charge(fmt.Sprint("heavy", i%26, ":", j))
			c.Space, c.Group = "queue", fmt.Sprint(i)
			b.Charges = append(b.Charges, c)
		}
		work.Go(func() {
			if err := s.load.limiter.Decide(t.Context(), b); err != nil {
				t.Error(err)
				return
			}
			var se *weir.StoreError
			if errors.As(b.Err, &se) && se.Kind == "overloaded" {
				turnedAway.Add(1)
				if b.Source != "local" {
					t.Errorf("a full queue switched an open limit off: %+v", b.Decision)
				}
			}
		})
	}
	s.stop = func() {
		work.Wait()
		if turnedAway.Load() == 0 {
			t.Error("the queue was not full")
		}
	}
}
