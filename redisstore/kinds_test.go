package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// trouble is a way to make a real server fail, and what must come of it.
type trouble struct {
	name        string
	begin, end  func(*scene)
	kind        string // "" is no failure: the store goes on deciding
	unreachable bool
}

// scene is a server, the way to it, and a store that goes that way.
type scene struct {
	*house
	server *testredis.Server
	way    *testredis.Proxy
	done   chan struct{} // of what begin left running
}

func (s *scene) must(args ...string) { s.server.Must(s.t, args...) }

// drop ends the store's connections.
func (s *scene) drop() { s.way.Cut() }

var troubles = []trouble{
	{
		name: "NOSCRIPT", begin: func(s *scene) { s.must("SCRIPT", "FLUSH") }, end: func(*scene) {},
	},
	{
		name:  "READONLY",
		begin: func(s *scene) { s.must("REPLICAOF", "127.0.0.1", "1") },
		end:   func(s *scene) { s.must("REPLICAOF", "NO", "ONE") },
		kind:  "readonly",
	},
	{
		name: "MASTERDOWN",
		begin: func(s *scene) {
			s.must("CONFIG", "SET", "replica-serve-stale-data", "no")
			s.must("REPLICAOF", "127.0.0.1", "1")
		},
		end:  func(s *scene) { s.must("REPLICAOF", "NO", "ONE") },
		kind: "masterdown", unreachable: true,
	},
	{
		name: "LOADING",
		begin: func(s *scene) {
			for i := range 200 {
				s.must("SET", fmt.Sprint("filling", i), strings.Repeat("x", 4096))
			}
			s.must("CONFIG", "SET", "rdbcompression", "no") // it answers every so many bytes
			s.must("CONFIG", "SET", "key-load-delay", "20000")
			s.must("CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
			s.later("DEBUG", "RELOAD")
		},
		end:  func(s *scene) { <-s.done },
		kind: "loading", unreachable: true,
	},
	{
		name: "BUSY",
		begin: func(s *scene) {
			s.must("CONFIG", "SET", "busy-reply-threshold", "1")
			s.later("EVAL", "while true do end", "0")
		},
		end:  func(s *scene) { s.must("SCRIPT", "KILL"); <-s.done },
		kind: "busy",
	},
	{
		name:  "OOM",
		begin: func(s *scene) { s.must("CONFIG", "SET", "maxmemory", "1") },
		end:   func(s *scene) { s.must("CONFIG", "SET", "maxmemory", "0") },
	},
	{
		name:  "NOREPLICAS",
		begin: func(s *scene) { s.must("CONFIG", "SET", "min-replicas-to-write", "1") },
		end:   func(s *scene) { s.must("CONFIG", "SET", "min-replicas-to-write", "0") },
		kind:  "noreplicas",
	},
	{
		name: "MISCONF",
		begin: func(s *scene) {
			s.must("CONFIG", "SET", "dir", "/proc")
			s.must("CONFIG", "SET", "save", "3600 1")
			s.must("BGSAVE")
		},
		end:  func(s *scene) { s.must("CONFIG", "SET", "save", "") },
		kind: "misconf",
	},
	{
		name:  "NOPERM",
		begin: func(s *scene) { s.must("ACL", "SETUSER", "default", "-evalsha") },
		end:   func(s *scene) { s.must("ACL", "SETUSER", "default", "+evalsha") },
		kind:  "noperm",
	},
	{
		name: "NOAUTH",
		begin: func(s *scene) {
			s.must("ACL", "SETUSER", "operator", "on", "nopass", "+@all", "~*", "&*")
			s.must("CONFIG", "SET", "requirepass", "another")
			s.drop()
		},
		end: func(s *scene) {
			c, err := testredis.Dial(s.server.Addr)
			if err != nil {
				s.t.Fatal(err)
			}
			defer c.Close()
			for _, words := range [][]string{{"AUTH", "operator", "any"}, {"CONFIG", "SET", "requirepass", ""}} {
				if _, err := c.Do(words...); err != nil {
					s.t.Fatal(err)
				}
			}
		},
		kind: "noperm",
	},
	{
		name:  "a stalled server",
		begin: func(s *scene) { s.check(s.server.Pause()) },
		end:   func(s *scene) { s.check(s.server.Resume()) },
		kind:  "timeout",
	},
	{
		name:  "a killed server",
		begin: func(s *scene) { s.server.Kill() },
		end:   func(s *scene) { s.check(s.server.Restart()) },
		kind:  "unreachable", unreachable: true,
	},
	{
		name:  "connections refused",
		begin: func(s *scene) { s.way.Refuse(true) },
		end:   func(s *scene) { s.way.Refuse(false) },
		kind:  "unreachable", unreachable: true,
	},
	{
		name: "connections reset", begin: func(s *scene) { s.way.Cut() }, end: func(*scene) {},
		kind: "",
	},
	{
		name: "connections half closed", begin: func(s *scene) { s.way.HalfClose() }, end: func(*scene) {},
		kind: "",
	},
}

func (s *scene) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// later sends a command that is answered late, if at all.
func (s *scene) later(args ...string) {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		_, _ = s.server.Do(args...) // it may be killed
	}()
}

// ask decides a bill of one charge under a limit with the given answer.
func (s *scene) ask(answer weir.Failure) *weir.Bill {
	s.t.Helper()
	b := bill(weir.PerSecond(1_000_000).OnFailure(answer).Charge(answer.String()))
	if err := s.Decide(context.Background(), b); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// kinds are acceptable names of one trouble: how it is first met may differ from
// how the probe finds it.
func kindOf(b *weir.Bill) (kind string, unreachable bool) {
	var se *weir.StoreError
	if errors.As(b.Err, &se) {
		return se.Kind, se.Unreachable
	}
	return "", false
}

// Every failure of a real server is told by its kind, gives each limit its stated
// answer, and ends by itself.
func TestEveryFailureHasItsKind(t *testing.T) {
	for _, tr := range troubles {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			server := testredis.Start(t, "enable-debug-command yes", "enable-protected-configs yes")
			way := testredis.StartProxy(t, server.Addr)
			store, err := redisstore.Open(way.URL(), redisstore.Options{Timeout: 250 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			s := &scene{house: &house{Limiter: limiterOn(t, store), store: store, t: t}, server: server, way: way}
			until(t, "redis decides", func() bool { return s.ask(weir.Local).Source == "redis" })
			tr.begin(s)
			if tr.kind == "" {
				until(t, "redis goes on deciding", func() bool { return s.ask(weir.Local).Source == "redis" })
				tr.end(s)
				return
			}
			var seen []string
			until(t, "the kind is "+tr.kind, func() bool {
				kind, _ := kindOf(s.ask(weir.Closed))
				if !slices.Contains(seen, kind) {
					seen = append(seen, kind)
				}
				return kind == tr.kind
			})
			for answer, want := range map[weir.Failure]string{weir.Local: "local", weir.Share: "local", weir.Closed: "none"} {
				if b := s.ask(answer); b.Source != want && b.Source != "redis" {
					t.Errorf("%s is answered by %s, want %s", answer, b.Source, want)
				}
			}
			b := s.ask(weir.Open)
			kind, unreachable := kindOf(b)
			switch {
			case kind == tr.kind && tr.kind != "timeout" && unreachable != tr.unreachable:
				t.Errorf("%s: unreachable is %v, want %v", kind, unreachable, tr.unreachable)
			case kind != "" && unreachable != (b.Reason == weir.FailedOpen):
				t.Errorf("%s, unreachable %v: open answers %s from %s", kind, unreachable, b.Reason, b.Source)
			}
			tr.end(s)
			until(t, fmt.Sprintf("redis decides again (seen: %v)", seen), func() bool { return s.ask(weir.Local).Source == "redis" })
		})
	}
}

// A name that leads to another server after a failover is followed, though the
// server that it led to still answers, as a replica.
func TestAReplicaIsLeftForThePrimary(t *testing.T) {
	old, next := testredis.Start(t), testredis.Start(t)
	way := testredis.StartProxy(t, old.Addr)
	store, err := redisstore.Open(way.URL(), redisstore.Options{Timeout: patient}) // else a probe may find out first
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{house: &house{Limiter: limiterOn(t, store), store: store, t: t}, server: old, way: way}
	until(t, "redis decides", func() bool { return s.ask(weir.Local).Source == "redis" })
	way.Lead(next.Addr)
	old.Must(t, "REPLICAOF", "127.0.0.1", "1") // of nobody, which spares the wait for its data
	until(t, "it is a replica", func() bool { kind, _ := kindOf(s.ask(weir.Closed)); return kind == "readonly" })
	// The store has several connections: none may be left at the replica.
	until(t, "the new primary decides, and it alone", func() bool {
		for range 50 {
			if s.ask(weir.Local).Source != "redis" {
				return false
			}
		}
		return true
	})
	clients, err := old.Do("CLIENT", "LIST", "TYPE", "normal")
	if text, _ := clients.(string); err != nil || strings.Contains(text, "name=weir") {
		t.Errorf("connections are left at the replica: %v %v", clients, err)
	}
}
