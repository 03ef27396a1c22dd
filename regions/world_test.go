package regions_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/policy"
)

// world is three regions: a server and a process each, and between any two of
// them a way with a lag.
type world struct {
	t       *testing.T
	names   []string
	servers map[string]*testredis.Server
	regions map[string]*region
	ways    map[[2]string]*testredis.Proxy // from, to
	clients map[string]rueidis.Client
	figures policy.Regions
	unsure  int64 // see answer
}

const (
	interval = 100 * time.Millisecond
	lag      = 120 * time.Millisecond
)

func newWorld(t *testing.T, scope policy.Scope, change func(*setup)) *world {
	t.Helper()
	return newWorldOn(t, func(string) *testredis.Server { return testredis.Start(t) }, scope, change)
}

// newWorldOn is newWorld with servers of the test's own.
func newWorldOn(t *testing.T, start func(region string) *testredis.Server, scope policy.Scope, change func(*setup)) *world {
	t.Helper()
	w := &world{
		t: t, names: []string{"eu", "us", "asia"},
		servers: map[string]*testredis.Server{}, regions: map[string]*region{},
		ways: map[[2]string]*testredis.Proxy{}, clients: map[string]rueidis.Client{},
		figures: policy.Regions{Count: 3, Interval: interval, Lag: lag},
	}
	for _, name := range w.names {
		s := start(name)
		w.servers[name] = s
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		w.clients[name] = c
	}
	for _, name := range w.names {
		set := setup{Region: name, URL: w.servers[name].URL(), Peers: map[string]string{}, Interval: interval, Lag: lag, Scope: scope}
		for _, other := range w.names {
			if other == name {
				continue
			}
			p := testredis.StartProxy(t, w.servers[other].Addr)
			p.Delay(lag)
			w.ways[[2]string{name, other}] = p
			set.Peers[other] = p.URL()
		}
		if change != nil {
			change(&set)
		}
		w.regions[name] = startRegion(t, set)
	}
	return w
}

// load has every region take from the keys at once and returns how many units
// each admitted.
func (w *world) load(limit string, keys []string, rate int, length time.Duration) (admitted int64) {
	w.t.Helper()
	return w.carry(order{Do: "load", Limit: limit, Keys: keys, Rate: rate, For: length})
}

// carry has every region carry out an order and returns what all admitted.
func (w *world) carry(o order) (admitted int64) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range w.names {
		all.Go(func() {
			a := w.regions[name].do(o)
			mu.Lock()
			admitted += a.Admitted
			w.unsure += a.Unsure
			mu.Unlock()
		})
	}
	all.Wait()
	return admitted
}

// cut parts every region from every other, or joins them again.
func (w *world) cut(cut bool) {
	for _, way := range w.ways {
		way.Refuse(cut)
	}
}

// counters reads what stands in a region's server: what its callers took of the
// key, and what it heard of each other region.
func (w *world) counters(name, key string) (took int64, heard map[string]int64) {
	w.t.Helper()
	c, ctx := w.clients[name], context.Background()
	heard = map[string]int64{}
	keys, err := c.Do(ctx, c.B().Keys().Pattern("weir1:*="+key+"*").Build()).AsStrSlice()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range keys {
		_, rest, _ := strings.Cut(k, "}:")
		v, err := c.Do(ctx, c.B().Get().Key(k).Build()).ToString()
		if err != nil || len(v) < 30 {
			continue
		}
		out, back := number(v[16:23]), number(v[23:30])
		switch rest[0] {
		case 'c':
			took += out - back
		case 'r':
			heard[k[strings.LastIndexByte(k, ':')+1:]] += out - back
		}
	}
	return took, heard
}

func number(b string) (n int64) {
	for i := range len(b) {
		n = n<<8 | int64(b[i])
	}
	return n
}

// agree reports what regions do not agree about, or "".
func (w *world) agree(keys []string) string {
	for _, key := range keys {
		took := map[string]int64{}
		for _, name := range w.names {
			took[name], _ = w.counters(name, key)
		}
		for _, name := range w.names {
			_, heard := w.counters(name, key)
			for _, other := range w.names {
				if other != name && heard[other] != took[other] {
					return fmt.Sprintf("%s heard that %s took %d of %s, and it took %d", name, other, heard[other], key, took[other])
				}
			}
		}
	}
	return ""
}

// converge waits until all regions know what each took, and returns how long it
// took from now.
func (w *world) converge(keys []string, patience time.Duration) (time.Duration, error) {
	return w.know(keys, 0, patience)
}

// know is converge that waits, too, until so many units are in the counters: what
// was just taken stands in none of them, and of nothing all know.
func (w *world) know(keys []string, taken int64, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		differ := w.agree(keys)
		if total := w.total(keys...); differ == "" && total < taken {
			differ = fmt.Sprintf("%d of %d are in the counters", total, taken)
		}
		if differ == "" {
			return time.Since(began), nil
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("after %s %s", patience, differ)
		}
		<-tick.C
	}
}

// total is what all regions took of a key, read from their servers.
func (w *world) total(keys ...string) (units int64) {
	for _, key := range keys {
		for _, name := range w.names {
			took, _ := w.counters(name, key)
			units += took
		}
	}
	return units
}
