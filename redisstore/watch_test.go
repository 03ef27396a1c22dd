package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// notices collects what a watch tells.
type notices struct {
	mu  sync.Mutex
	got []redisstore.Notice
}

func (n *notices) tell(notice redisstore.Notice) {
	n.mu.Lock()
	n.got = append(n.got, notice)
	n.mu.Unlock()
}

func (n *notices) count(kind, node string) (count int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.got {
		if one.Kind == kind && one.Node == node {
			count += one.Count
		}
	}
	return count
}

func watch(t *testing.T, h *house) (*redisstore.Watch, *notices) {
	t.Helper()
	told := &notices{}
	w := h.store.Watch(told.tell)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, told
}

// mark returns the key of the one mark on the server.
func (h *house) mark() string {
	h.t.Helper()
	var keys []string
	until(h.t, "the mark is there", func() bool { keys = h.keys(":mark:"); return len(keys) == 1 })
	return keys[0]
}

// number returns the number at key, 0 for none.
func (h *house) number(key string) int {
	n, _ := strconv.Atoi(h.do("GET", key)) // none is no number
	return n
}

// Each way to lose counters is noticed, and each for what it is.
func TestLostCountersAreNoticed(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	h := open(t, server, redisstore.Options{})
	w, told := watch(t, h)
	key := h.mark()
	until(t, "the mark grows", func() bool { return h.number(key) >= 2 })
	if got := w.Losses(); got != (redisstore.Losses{}) {
		t.Fatalf("nothing happened yet: %+v", got)
	}

	h.do("FLUSHALL")
	until(t, "the flush is noticed", func() bool { return w.Losses().Flushed == 1 })

	until(t, "the mark is there again", func() bool { return len(h.keys(":mark:")) == 1 })
	h.do("SET", key, "1") // as a replica would have it that missed the writes after
	until(t, "lost writes are noticed", func() bool { return w.Losses().RolledBack == 1 })
	if n := told.count(redisstore.RolledBack, ""); n < 1 {
		t.Errorf("told of %d marks rolled back", n)
	}

	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, "the restart is noticed, and that it came back empty", func() bool {
		got := w.Losses()
		return got.Replaced == 1 && got.Flushed == 2
	})
	if n := told.count(redisstore.Replaced, ""); n != 0 {
		t.Errorf("one restart is told of as a loss and, %d times, as another server", n)
	}
	if got := w.Losses(); got.RolledBack != 1 || got.Evicted != 0 {
		t.Errorf("told of what did not happen: %+v", got)
	}
}

// Eviction is told beforehand, and when it happens.
func TestEvictionIsNoticed(t *testing.T) {
	t.Parallel()
	h := open(t, testredis.Start(t, "maxmemory 4mb", "maxmemory-policy allkeys-random"), redisstore.Options{})
	w, told := watch(t, h)
	until(t, "the policy is warned of", func() bool { return told.count(redisstore.MayEvict, "") == 1 })
	filling := strings.Repeat("x", 1<<20)
	filled := 0
	until(t, "evictions are noticed", func() bool {
		filled++
		h.do("SET", fmt.Sprint("filling", filled%8), filling)
		return w.Losses().Evicted > 0
	})
	quiet := open(t, testredis.Start(t), redisstore.Options{})
	_, told = watch(t, quiet)
	quiet.mark()
	if n := told.count(redisstore.MayEvict, "") + told.count(redisstore.MayLose, ""); n != 0 {
		t.Errorf("%d warnings of a server that is set up well", n)
	}
}

// Each node of a cluster is looked after by itself.
func TestEveryNodeIsWatched(t *testing.T) {
	t.Parallel()
	cluster := testredis.StartCluster(t, 3)
	store, err := redisstore.Open(cluster.URL(), redisstore.Options{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	limiterOn(t, store)
	told := &notices{}
	w := store.Watch(told.tell)
	defer w.Close()
	for _, node := range cluster.Nodes {
		raw := rawClient(t, node)
		until(t, "each node has a mark", func() bool { return len(raw.keys(":mark:")) == 1 })
		mark := raw.keys(":mark:")[0]
		until(t, "it grows", func() bool { return raw.number(mark) > 1 })
	}
	flushed := cluster.Nodes[1]
	rawClient(t, flushed).do("FLUSHALL")
	until(t, "the flush is noticed", func() bool { return w.Losses().Flushed == 1 })
	if told.count(redisstore.Flushed, flushed.Addr) != 1 {
		t.Errorf("the node is not named: %+v", told.got)
	}
}

// A replica takes over that had not heard of the primary's last writes.
func TestAFailoverThatLostWritesIsNoticed(t *testing.T) {
	t.Parallel()
	old, next := testredis.Start(t), testredis.Start(t)
	host, port, _ := strings.Cut(old.Addr, ":")
	next.Must(t, "REPLICAOF", host, port)
	way := testredis.StartProxy(t, old.Addr)
	store, err := redisstore.Open(way.URL(), redisstore.Options{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	limiterOn(t, store)
	told := &notices{}
	w := store.Watch(told.tell)
	defer w.Close()
	primary, replica := rawClient(t, old), rawClient(t, next)
	mark := primary.mark()
	until(t, "the replica follows", func() bool { return replica.number(mark) > 1 })
	next.Must(t, "REPLICAOF", "NO", "ONE")
	stays := replica.number(mark)
	until(t, "the primary gets further", func() bool { return primary.number(mark) > stays+1 })
	way.Lead(next.Addr)
	way.Cut()
	until(t, "the lost writes are noticed", func() bool { got := w.Losses(); return got.RolledBack == 1 && got.Replaced == 1 })
	if got := w.Losses(); got.Flushed != 0 {
		t.Errorf("told of a flush that was none: %+v", got)
	}
}

// Under Sentinel a primary that takes writes without a replica is warned of.
func TestAPrimaryThatMayLoseWritesIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := testredis.StartSentinel(t)
	for _, node := range s.Servers {
		node.Must(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	}
	store, err := redisstore.Open(s.URL(), redisstore.Options{Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	limiterOn(t, store)
	told := &notices{}
	w := store.Watch(told.tell)
	defer w.Close()
	until(t, "it is warned of", func() bool { return told.count(redisstore.MayLose, "") == 1 })
}
