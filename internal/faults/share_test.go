package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// A limit that instances share while Redis is away: three of them a third each,
// and, when one has died, two of them a half.
const (
	shared     = 30
	sharedText = "30/366d algorithm=fixed_window on_store_failure=share"
	sharedKeys = 20
)

// flood asks for keys at the daemons in turn, 2,000 times a second, until ctx
// ends.
type flood struct {
	daemons []*daemon
	prefix  string

	mu       sync.Mutex
	load     *load // measures
	redis    map[string]int
	local    map[*daemon]map[string]int
	limits   map[int64]int // that local answers showed
	firstly  time.Time     // answered by redis, since the last reset
	trouble  error
	n        int
	answered sync.WaitGroup
}

func newFlood(prefix string, daemons ...*daemon) *flood {
	f := &flood{daemons: daemons, prefix: prefix, load: &load{deadline: deadline},
		redis: make(map[string]int), local: make(map[*daemon]map[string]int), limits: make(map[int64]int)}
	for _, d := range daemons {
		f.local[d] = make(map[string]int)
	}
	return f
}

// run returns when ctx has ended and everything is answered.
func (f *flood) run(ctx context.Context) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.answered.Wait()
			f.load.running.Wait()
			return
		case <-tick.C:
			for range perSecond() / 500 {
				f.n++
				d, key := f.daemons[f.n%len(f.daemons)], fmt.Sprint(f.prefix, f.n/len(f.daemons)%sharedKeys)
				f.answered.Go(func() { f.one(d, key) })
				if f.n%2 == 0 {
					f.load.running.Go(f.load.control)
				}
			}
		}
	}
}

func (f *flood) one(d *daemon, key string) {
	c := check{began: time.Now()}
	a, err := d.take(context.Background(), key, sharedText)
	c.ended = time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || a.Source != "redis" && a.Source != "local" {
		f.trouble = fmt.Errorf("%+v %w", a, err)
		return
	}
	if a.Source == "local" {
		c.kind = "local"
		f.limits[a.Limit]++
		if a.Allowed {
			f.local[d][key]++
		}
	} else {
		if a.Allowed {
			f.redis[key]++
		}
		if f.firstly.IsZero() {
			f.firstly = c.ended
		}
	}
	f.load.mu.Lock()
	defer f.load.mu.Unlock()
	f.load.checks = append(f.load.checks, c)
}

// spent reports whether each daemon has admitted part of each key by itself.
func (f *flood) spent(part int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.daemons {
		for i := range sharedKeys {
			if f.local[d][fmt.Sprint(f.prefix, i)] < part {
				return false
			}
		}
	}
	return true
}

// counted waits until each of n daemons has counted the others since all of them
// were there.
func counted(t *testing.T, server *testredis.Server, n int) {
	t.Helper()
	scores := func() map[string]string {
		reply, err := server.Do("ZRANGE", "weir1:{instances}", "0", "-1", "WITHSCORES")
		must(t, err)
		list, byID := reply.([]any), make(map[string]string)
		for i := 0; i+1 < len(list); i += 2 {
			byID[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
		}
		return byID
	}
	var before map[string]string
	await(t, "the instances know each other", func() bool {
		now := scores()
		if len(now) != n {
			before = nil
			return false
		}
		if before == nil {
			before = now
		}
		for id, score := range now {
			if before[id] == score {
				return false
			}
		}
		return true
	})
}

// TestShare kills Redis under three daemons, and, when it is back and one of them
// is dead, under two.
func TestShare(t *testing.T) {
	if brief() { // the race detector sees nothing of other processes
		return
	}
	server := testredis.Start(t)
	var daemons []*daemon
	for range 3 {
		daemons = append(daemons, startDaemon(t, server.URL()))
	}
	counted(t, server, 3)
	shareOutage(t, "Redis killed under three daemons", server, daemons)
	daemons[2].kill()
	counted(t, server, 2)
	shareOutage(t, "Redis killed under two, the third is dead", server, daemons[:2])
}

func shareOutage(t *testing.T, name string, server *testredis.Server, daemons []*daemon) {
	part := shared / len(daemons)
	f := newFlood(fmt.Sprint("of", len(daemons), ":"), daemons...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.run(ctx) }()
	await(t, "redis decides", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return !f.firstly.IsZero() })
	began := time.Now()
	server.Kill()
	await(t, "each daemon has spent its part", func() bool { return f.spent(part) })
	hold(either(300*time.Millisecond, 3*time.Second))
	during := f.load.figures(began, time.Now())
	pong := make(chan time.Time, 1)
	go func() { pong <- (&scene{servers: []*testredis.Server{server}}).firstPong(t.Context()) }()
	ending := time.Now()
	must(t, server.Restart())
	at := <-pong
	f.mu.Lock()
	f.firstly = time.Time{}
	f.mu.Unlock()
	await(t, "redis decides again", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return !f.firstly.IsZero() })
	cancel()
	<-done
	back, after := f.firstly.Sub(at), f.load.figures(ending, time.Now())
	during.kinds = map[string]int{"local": during.kinds["local"]}
	table.Lock()
	table.rows = append(table.rows, row{fault: name, f: during, back: back})
	table.Unlock()

	if f.trouble != nil {
		t.Error(f.trouble)
	}
	for i := range sharedKeys {
		key, sum := fmt.Sprint(f.prefix, i), 0
		for _, d := range daemons {
			sum += f.local[d][key]
			if got := f.local[d][key]; got != part {
				t.Errorf("a daemon admitted %d of %s by itself, want its part of %d", got, key, part)
			}
		}
		if sum > shared {
			t.Errorf("%d of %s admitted without redis, over the limit of %d", sum, key, shared)
		}
	}
	if len(f.limits) != 1 || f.limits[int64(part)] == 0 {
		t.Errorf("limits shown without redis: %v, want %d alone", f.limits, part)
	}
	inTime(t, deadline, &during, &after, back)
}
