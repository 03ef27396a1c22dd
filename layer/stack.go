// Package layer puts the layers in front of a store in their one right order.
//
//	Limiter ─▶ deny cache ─▶ store
//
// A layer is a weir.Store in front of another: it answers what it can without
// the store and passes the rest, and every error, on. The deny cache comes first
// because a refusal it knows needs nothing of what stands behind it.
package layer

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer/denycache"
)

// Options configures Stack. The zero value is right for production.
type Options struct {
	// DenyCache bounds the refusals kept; see denycache.Options. Negative turns
	// the cache off, so that every take is decided by the store.
	DenyCache int
}

// Stacked is a store with its layers. It is a weir.Store.
type Stacked struct {
	weir.Store
	deny *denycache.Cache
}

// Stack returns store behind its layers. Closing it closes the store.
//
// A store in memory is returned bare: asking it costs what the layers would.
func Stack(store weir.Store, o Options) *Stacked {
	s := &Stacked{Store: store}
	if store.Caps().Shared && o.DenyCache >= 0 {
		s.deny = denycache.New(store, denycache.Options{Entries: o.DenyCache})
		s.Store = s.deny
	}
	return s
}

// Clear forgets what the layers know of the store, for a reload of the policy.
func (s *Stacked) Clear() {
	if s.deny != nil {
		s.deny.Clear()
	}
}

// DenyHits returns how many bills the deny cache answered.
func (s *Stacked) DenyHits() int64 {
	if s.deny == nil {
		return 0
	}
	return s.deny.Hits()
}
