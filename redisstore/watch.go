package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Redis may lose counters without a word: FLUSHALL, a restart without its data, a
// failover to a replica that had not yet heard of the last writes, eviction. Each
// lets callers begin anew, which nobody sees in a decision. So each instance
// keeps a mark of its own on every node, an increasing number:
//
//	instance ─ every second ─▶ node: write mark n+1, read what stood there
//	                             none:      the node was flushed, or came back empty
//	                             below n:   it lost the writes since then
//	                             n, or an unknown n+1:  all is well
//
// and with it asks the node who it is and how many keys it evicted. No check pays
// for this: it is one script call a second to a node.
//
// What is lost stays lost. A balance that is gone is a new one, so each caller
// may have up to one limit's worth more; nothing is made up from what instances
// remember, because they remember little and would not agree. It is told and
// counted, so that it is a known event and not a guess.
//
// A mark lives for a day, longer than a clock is likely to be stepped by.

// The kinds of a Notice.
const (
	Flushed    = "flushed"     // the node's counters are gone
	RolledBack = "rolled_back" // the node lost its last writes
	Evicted    = "evicted"     // the node evicted keys, balances among them
	Replaced   = "replaced"    // another server answers, or the same one was restarted
	MayEvict   = "may_evict"   // maxmemory-policy is not noeviction
	MayLose    = "may_lose"    // under Sentinel, min-replicas-to-write is not set
)

// Notice is something that happened, or may happen, to a node's counters.
type Notice struct {
	Kind string
	Node string // host:port in a cluster, else ""
	// Count is how many keys were evicted or how many marks rolled back, else 1.
	Count int64
}

// Losses counts notices since the watch began.
type Losses struct{ Flushed, RolledBack, Evicted, Replaced int64 }

const markLife = 24 * time.Hour

// Watch looks after a store's counters. It is safe for concurrent use.
type Watch struct {
	store *Store
	tell  func(Notice)
	id    string
	nodes []*watched // of the loop alone
	stop  context.CancelFunc
	done  sync.WaitGroup

	flushed, rolledBack, evicted, replaced atomic.Int64
}

// watched is a node as it was when last seen.
type watched struct {
	group   uint16 // a slot group that the node serves
	node    string
	next    int64     // the mark to write
	known   int64     // the last mark that the node has confirmed; 0 for none
	at      time.Time // when it did
	run     string
	role    string
	evicted int64
}

// Watch begins to look after the nodes' counters. tell, if not nil, is called on
// the watch's goroutine. Close ends it.
func (s *Store) Watch(tell func(Notice)) *Watch {
	id := make([]byte, 12)
	rand.Read(id) // never fails: see crypto/rand
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{store: s, tell: tell, id: base64.RawURLEncoding.EncodeToString(id), stop: cancel}
	w.done.Go(func() { w.keepLooking(ctx) })
	return w
}

// Losses returns the counts.
func (w *Watch) Losses() Losses {
	return Losses{w.flushed.Load(), w.rolledBack.Load(), w.evicted.Load(), w.replaced.Load()}
}

// Close ends the watch.
func (w *Watch) Close() error {
	w.stop()
	w.done.Wait()
	return nil
}

func (w *Watch) keepLooking(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look asks every node once.
func (w *Watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	w.find(ctx)
	for _, n := range w.nodes {
		if l := w.store.lines[n.group].Load(); l != nil && l.breaker.admit() != nil {
			continue
		}
		w.ask(ctx, n)
	}
}

// find brings the list of nodes up to date. A node that took a group over from
// another is watched on by the mark that it took over.
func (w *Watch) find(ctx context.Context) {
	if !w.store.cluster {
		if w.nodes == nil {
			w.nodes = []*watched{{}}
		}
		return
	}
	owners, err := w.store.owners(ctx)
	if err != nil {
		return
	}
	covered := make(map[string]bool)
	var nodes []*watched
	for _, n := range w.nodes {
		if owner := owners[n.group]; owner != "" && !covered[owner] {
			n.node, covered[owner] = owner, true
			nodes = append(nodes, n)
		}
	}
	for group, owner := range owners {
		if owner != "" && !covered[owner] {
			covered[owner] = true
			nodes = append(nodes, &watched{group: uint16(group), node: owner})
		}
	}
	w.nodes = nodes
}

func (w *Watch) ask(ctx context.Context, n *watched) {
	n.next++
	reply, err := w.store.run(ctx, mark, []string{w.key(n)}, []string{formatInt(n.next), formatInt(markLife.Milliseconds())})
	if err != nil {
		return
	}
	in := reader{rest: reply}
	in.array()
	was := in.int()
	_, run := in.value()
	_, role := in.value()
	evicted := in.int()
	_, policy := in.value()
	guarded := in.int() == 1
	if in.err != nil {
		return
	}
	lost := w.compare(n, was)
	if run != "" {
		w.identify(n, run, role, evicted, policy, guarded, lost)
	}
	n.known, n.at = n.next, time.Now()
}

// key is where the mark stands.
func (w *Watch) key(n *watched) string {
	return fmt.Sprintf("%s1:{%d}:mark:%s", w.store.keys.prefix, n.group, w.id)
}

// compare holds the mark that was found against the last that was confirmed, and
// returns whether something is lost.
func (w *Watch) compare(n *watched, was int64) (lost bool) {
	switch {
	case n.known == 0 || time.Since(n.at) > markLife/2: // none yet, or it may have expired
		return false
	case was == 0:
		w.flushed.Add(1)
		w.say(Notice{Flushed, n.node, 1})
	case was < n.known:
		w.rolledBack.Add(1)
		w.say(Notice{RolledBack, n.node, n.known - was})
	default:
		return false
	}
	return true
}

// identify takes note of who the node is. That another server answers goes without
// saying where its loss was just told.
func (w *Watch) identify(n *watched, run, role string, evicted int64, policy string, guarded, lost bool) {
	first := n.run == ""
	if !first && (run != n.run || role != n.role) {
		w.replaced.Add(1)
		if !lost {
			w.say(Notice{Replaced, n.node, 1})
		}
	}
	if run != n.run { // a fresh server: what it was set up with is not known yet
		n.evicted = 0
		if first {
			n.evicted = evicted
		}
		if policy != "" && policy != "noeviction" {
			w.say(Notice{MayEvict, n.node, 1})
		}
		if !guarded && w.store.sentinel() {
			w.say(Notice{MayLose, n.node, 1})
		}
	}
	if more := evicted - n.evicted; more > 0 {
		w.evicted.Add(more)
		w.say(Notice{Evicted, n.node, more})
	}
	n.run, n.role, n.evicted = run, role, evicted
}

func (w *Watch) say(n Notice) {
	if w.tell != nil {
		w.tell(n)
	}
}
