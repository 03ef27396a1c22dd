package identity

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Distrust tells of a header that was ignored because of who sent it. Behind a
// proxy that nobody configured this is the whole explanation of why all callers
// look like one.
type Distrust struct {
	Peer    netip.Prefix // the network of the peer; invalid on a unix socket
	Header  string
	Setting string // where the peer could be trusted, as the policy file has it
}

// String returns a sentence for a log or for /readyz.
func (d Distrust) String() string {
	peer := "a unix socket"
	if d.Peer.IsValid() {
		peer = string(AppendNetwork(nil, d.Peer))
	}
	return d.Header + " from " + peer + " is ignored: the peer is not in " + d.Setting
}

// maxDistrusted bounds what is remembered; anybody can send a header.
const maxDistrusted = 64

// distrusts remembers which networks sent what. Those known are found without a
// lock in a map that is replaced, never changed; the lock is for replacing it.
type distrusts struct {
	hook  func(Distrust)
	count atomic.Uint64
	known atomic.Pointer[map[Distrust]struct{}]
	mu    sync.Mutex
}

func (d *distrusts) note(what Distrust) {
	d.count.Add(1)
	if known := d.known.Load(); known != nil {
		if _, ok := (*known)[what]; ok || len(*known) >= maxDistrusted {
			return
		}
	}
	if d.add(what) && d.hook != nil {
		d.hook(what)
	}
}

// add reports whether what is new and was remembered.
func (d *distrusts) add(what Distrust) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := map[Distrust]struct{}{}
	if known := d.known.Load(); known != nil {
		if _, ok := (*known)[what]; ok || len(*known) >= maxDistrusted {
			return false
		}
		next = maps.Clone(*known)
	}
	next[what] = struct{}{}
	d.known.Store(&next)
	return true
}

// Distrusted returns how often a header was ignored because of who sent it, and
// from which networks, the first 64 of them, in order.
func (r *Resolver) Distrusted() (count uint64, first []Distrust) {
	if known := r.distrusts.known.Load(); known != nil {
		first = slices.SortedFunc(maps.Keys(*known), func(a, b Distrust) int {
			return cmp.Or(a.Peer.Addr().Compare(b.Peer.Addr()), strings.Compare(a.Header, b.Header))
		})
	}
	return r.distrusts.count.Load(), first
}
