package testredis

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Sentinel is a primary and two replicas, watched by three sentinels.
type Sentinel struct {
	Servers   []*Server // the first is the primary at the start
	Sentinels []*Server
	Clocks    []*Clock // of Servers
}

// Primary is the name of the primary.
const Primary = "primary"

// DownAfter is how long a server must be silent before a sentinel thinks it gone.
const DownAfter = time.Second

// URL returns the store URL.
func (s *Sentinel) URL() string {
	var hosts []string
	for _, n := range s.Sentinels {
		hosts = append(hosts, n.Addr)
	}
	return "redis+sentinel://" + strings.Join(hosts, ",") + "/" + Primary
}

// StartSentinel runs the six processes, waits until they all know each other, and
// stops them when the test ends. A primary takes writes only while a replica
// hears of them, as Weir asks for.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{}
	var primary string
	for i := range 3 {
		clock := NewClock(t)
		lines := []string{"min-replicas-to-write 1", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"}
		if i > 0 {
			lines = append(lines, "replicaof "+primary)
		}
		server := clock.Start(t, lines...)
		if i == 0 {
			host, port, _ := net.SplitHostPort(server.Addr)
			primary = host + " " + port
		}
		s.Servers, s.Clocks = append(s.Servers, server), append(s.Clocks, clock)
	}
	eventually(t, "the replicas are in step", func() bool {
		return strings.Contains(s.Servers[0].Must(t, "INFO", "replication"), "min_slaves_good_slaves:2")
	})
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(t,
			fmt.Sprintf("sentinel monitor %s %s 2", Primary, primary),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", Primary, DownAfter.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s 5000", Primary)))
	}
	for _, sentinel := range s.Sentinels {
		eventually(t, "the sentinels know each other", func() bool {
			state := s.state(t, sentinel)
			return state["num-slaves"] == "2" && state["num-other-sentinels"] == "2" && state["flags"] == "master"
		})
	}
	return s
}

func (s *Sentinel) state(t testing.TB, sentinel *Server) map[string]string {
	reply, err := sentinel.Do("SENTINEL", "MASTER", Primary)
	if err != nil {
		t.Fatal(err)
	}
	state, list := make(map[string]string), reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		state[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return state
}

// Now returns the server that the sentinels have as the primary.
func (s *Sentinel) Now(t testing.TB) *Server {
	t.Helper()
	state := s.state(t, s.Sentinels[0])
	addr := net.JoinHostPort(state["ip"], state["port"])
	for _, server := range s.Servers {
		if server.Addr == addr {
			return server
		}
	}
	t.Fatalf("testredis: nobody is %s", addr)
	return nil
}

func startSentinel(t testing.TB, config ...string) *Server {
	t.Helper()
	s, err := run(Redis, how{config: config, sentinel: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-late:
			t.Fatalf("testredis: %s: not within %v", what, patience)
		case <-tick.C:
		}
	}
}
