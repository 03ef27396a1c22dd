package doorcost

import (
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Crowd opens 10,000 connections that say nothing and 1,000 that send partial a
// byte at a time and never its end (a twentieth of both in CI), and meanwhile asks
// again and again. It fails if one ask fails, and says how long they took before
// and with the crowd: on a busy machine no bound on that would hold.
func Crowd(t *testing.T, s *Server, partial string, ask func() error) {
	t.Helper()
	idle, slow := Scale(10_000), Scale(1_000)
	if room := Holds(t, 1); idle+slow > room {
		idle, slow = room*10/11, room/11
	}
	before := asks(t, ask)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range idle + slow {
		c, err := net.DialTimeout("tcp", s.Addr, time.Minute)
		if err != nil {
			t.Fatalf("after %d connections: %v", len(conns), err)
		}
		conns = append(conns, c)
	}
	crowded := asks(t, ask)
	for i := range partial {
		for _, c := range conns[idle:] {
			_, _ = io.WriteString(c, partial[i:i+1]) // the door may have had enough of it
		}
		if i%8 == 0 {
			crowded = append(crowded, asks(t, ask)...)
		}
	}
	t.Logf("%d idle and %d slow connections: an ask takes %v at the median, %v before them", idle, slow, middle(crowded), middle(before))
}

// Holds returns how large a crowd a door may hold here that has such a share of the
// descriptors of its process, an eighth of which is kept back. The rest of a crowd
// would be turned away, and newcomers with it.
func Holds(t *testing.T, share float64) int {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(share*7/8*float64(min(limit.Max, 1<<20))) - 100
}

// asks asks a few times and returns how long each took.
func asks(t *testing.T, ask func() error) (took []time.Duration) {
	t.Helper()
	for range 50 {
		began := time.Now()
		if err := ask(); err != nil {
			t.Fatalf("somebody else is harmed: %v", err)
		}
		took = append(took, time.Since(began))
	}
	return took
}

func middle(v []time.Duration) time.Duration {
	slices.Sort(v)
	return v[len(v)/2]
}
