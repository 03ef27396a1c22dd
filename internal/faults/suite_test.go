package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// long says that the faults last as long as they are said to, and not only as
// long as it takes to see them.
var long = os.Getenv("WEIR_FAULTS") == "long"

func either[T any](short, longer T) T {
	if long {
		return longer
	}
	return short
}

// brief says that a part of everything is enough.
func brief() bool { return raced || testing.Short() }

// fewer takes some of the faults where the race detector makes everything slow.
func fewer(faults []fault, n int) []fault {
	if brief() {
		return faults[:n]
	}
	return faults
}

// fault is one thing that breaks, and what is promised of it.
type fault struct {
	name  string
	kinds []string // what the store's errors may be; none: nobody notices
	// orderly is a fault that begin sees happen and that nobody need notice: servers
	// that hand over keep a client waiting, often for less than its deadline.
	orderly bool
	hold    time.Duration
	loses   loss
	// patient gives decisions so long that a busy machine is not taken for a
	// store that fails. It is for faults that nobody may notice.
	patient bool

	begin func(t *testing.T, s *scene)
	end   func(t *testing.T, s *scene)
}

// loss is how much of the store's contents goes, whatever the client does.
type loss int

const (
	nothing loss = iota
	some         // the newest: what a replica had not heard of when it took over
	everything
)

// scene is where a fault takes place.
type scene struct {
	url      string
	servers  []*testredis.Server // who may be the primary
	proxy    *testredis.Proxy
	clock    *testredis.Clock
	load     *load
	admin    *testredis.Conn // to the first server, from before the fault
	stop     func()          // of what begin started
	sentinel *testredis.Sentinel
	cluster  *testredis.Cluster
}

const (
	deadline = 50 * time.Millisecond
	patience = 30 * time.Second
	recovery = 2 * time.Second
)

// row is a line of the table.
type row struct {
	fault string
	f     figures
	back  time.Duration
}

var table struct {
	sync.Mutex
	rows []row
}

// during runs the load through a fault and holds what is promised against it.
func during(t *testing.T, f fault, s *scene) {
	limit := deadline
	if f.patient {
		limit = 80 * deadline
	}
	l := newLoad(t, s.url, limit, nil)
	l.spans = s.cluster != nil
	s.load = l
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	defer func() { cancel(); <-done }()

	start := time.Now()
	await(t, "redis decides everything", func() bool { _, all := l.recovered(start); return all })

	began := time.Now()
	if f.loses != nothing {
		l.generation.Store(1)
	}
	f.begin(t, s)
	hold(f.hold)
	ending := time.Now()
	pong := make(chan time.Time, 1)
	watch, unwatch := context.WithTimeout(ctx, patience)
	defer unwatch()
	go func() { pong <- s.firstPong(watch) }()
	if f.end != nil {
		f.end(t, s)
	}
	var at time.Time
	if at = <-pong; at.IsZero() {
		t.Fatal("no server can be written to")
	}
	var back time.Duration
	await(t, "redis decides everything again", func() (all bool) { back, all = l.recovered(at); return all })
	if f.loses != nothing {
		l.generation.Store(2)
	}
	recovered := time.Now()
	hold(max(300*time.Millisecond, time.Second-time.Since(began))) // enough checks for a 99.9th
	stopped := time.Now()
	cancel()
	<-done

	during, after := l.figures(began, stopped), l.figures(ending, recovered)
	r := row{fault: f.name, f: during, back: back}
	table.Lock()
	table.rows = append(table.rows, r)
	table.Unlock()
	t.Logf("%s: %d checks, p99.9 %v (control late %v), max %v (control %v), back %v after PONG (control %v); %s; unknown %d", f.name,
		during.checks, ms(during.p999), ms(during.noise), ms(during.longest), ms(during.noisiest), ms(back), ms(after.noisiest), during.seen(), during.unknown)

	if !raced {
		inTime(t, limit, &during, &after, back)
	}
	f.kept(t, &during)
	for _, problem := range l.settle(t, f.loses) {
		t.Error(problem)
	}
}

// inTime holds the times against what is promised. A busy machine may be late at a
// check and in time at the control beside it, so that twice the most is allowed for
// that the control shows.
func inTime(t *testing.T, limit time.Duration, during, after *figures, back time.Duration) {
	t.Helper()
	if most := limit + 10*time.Millisecond + 2*during.noisiest; during.p999 > most {
		t.Errorf("p99.9 of a decision is %v, want at most %v: the deadline, 10 ms and what the control shows of the machine", during.p999, most)
	}
	if most := 2*limit + 2*during.noisiest; during.longest > most {
		t.Errorf("the longest decision took %v, want at most %v: twice the deadline and what the control shows of the machine", during.longest, most)
	}
	if most := recovery + 2*after.noisiest; back > most {
		t.Errorf("redis decides again %v after the first PONG, want at most %v", back, most)
	}
}

// kept checks that the store's errors were those of the fault, and that it was
// felt at all.
func (f *fault) kept(t *testing.T, during *figures) {
	felt := 0
	for kind, n := range during.kinds {
		if slices.Contains(f.kinds, kind) {
			felt += n
		} else if kind != "timeout" && kind != "stale" || f.patient { // a busy machine is late with anything
			t.Errorf("%d errors of kind %s, which is not this fault's", n, kind)
		}
	}
	if len(f.kinds) > 0 && felt == 0 && !f.orderly {
		t.Errorf("nobody noticed the fault; seen: %s", during.seen())
	}
}

func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// hold lets a fault last.
func hold(d time.Duration) { <-time.After(d) }

// await waits until ok, for as long as a busy machine may need.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	awaitFor(t, patience, what, ok)
}

func awaitFor(t testing.TB, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-late:
			t.Fatalf("%s: not within %v", what, patience)
		case <-tick.C:
		}
	}
}

// written is the key that firstPong writes.
const written = "written"

// firstPong returns when a server first did what only a primary does: a write.
// It asks over new connections, by the way that the store goes.
func (s *scene) firstPong(ctx context.Context) time.Time {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var addrs []string
	for _, server := range s.servers {
		addrs = append(addrs, server.Addr)
	}
	if s.proxy != nil {
		addrs = []string{s.proxy.Addr}
	}
	first := make(chan time.Time, len(addrs))
	for _, addr := range addrs {
		go func() {
			for ctx.Err() == nil {
				if c, err := testredis.Dial(addr); err == nil {
					_, err = c.DoWithin(200*time.Millisecond, "SET", written, "1", "PX", "1000")
					_ = c.Close()
					if err == nil {
						first <- time.Now()
						return
					}
				}
				<-tick.C
			}
		}()
	}
	select {
	case at := <-first:
		return at
	case <-ctx.Done():
		return time.Time{}
	}
}

// scratch is a directory for what all tests share.
var scratch string

// TestMain prints the table of what was measured.
func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "weir-faults-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch) // a temporary directory; nothing depends on it
	if len(table.rows) > 0 {
		fmt.Println(report())
	}
	os.Exit(code)
}

func report() string {
	var b strings.Builder
	b.WriteString("| fault | checks | p99.9 | control | longest | control | back after PONG | unknown | seen |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range table.rows {
		fmt.Fprintf(&b, "| %s | %d | %v | %v | %v | %v | %v | %d | %s |\n", r.fault, r.f.checks,
			ms(r.f.p999), ms(r.f.noise), ms(r.f.longest), ms(r.f.noisiest), ms(r.back), r.f.unknown, r.f.seen())
	}
	return b.String()
}
