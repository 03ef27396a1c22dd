// Package layer puts the layers in front of a store in their one right order.
//
//	Limiter ─▶ deny cache ─▶ leases ─▶ store
//	Limiter ─▶ deny cache ─▶ regions ─▶ store
//
// A layer is a weir.Store in front of another: it answers what it can without
// the store and passes the rest, and every error, on. The deny cache comes first
// because a refusal it knows needs nothing of what stands behind it, and because
// refunds and resets have to pass through it whatever answers them. Where a limit
// holds over several regions, regions.Front stands next to the store, and Stack is
// given what it returns: it tells other regions what was debited, so nothing may
// debit behind it. Leases do not go with it: their units are debited when they are
// borrowed, would be told as taken, and come back later.
package layer

import (
	"errors"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer/denycache"
	"github.com/weirhq/weir/layer/lease"
)

// Options configures Stack. The zero value is right for production.
type Options struct {
	// DenyCache bounds the refusals kept; see denycache.Options. Negative turns
	// the cache off, so that every take is decided by the store.
	DenyCache int
	// Overshoot allows leases for hot keys: how much of a limit's capacity may
	// be out on loan, in millionths (10,000 is 1 %). 0 has none.
	Overshoot int64
}

// Stacked is a store with its layers. It is a weir.Store.
type Stacked struct {
	weir.Store
	deny   *denycache.Cache
	leases *lease.Leases
}

// Stack returns store behind its layers. Closing it closes the store.
//
// A store in memory is returned bare: asking it costs what the layers would. A
// store that cannot lend is an error if leases are asked for.
func Stack(store weir.Store, o Options) (*Stacked, error) {
	s := &Stacked{Store: store}
	if !store.Caps().Shared {
		return s, nil
	}
	if o.Overshoot > 0 {
		lender, ok := store.(lease.Lender)
		if !ok {
			return nil, errors.New("layer: max_overshoot needs a store that can lend, and this one cannot; one whose limits hold over several regions does not")
		}
		s.leases = lease.New(lender, lease.Options{Overshoot: o.Overshoot})
		s.Store = s.leases
	}
	if o.DenyCache >= 0 {
		s.deny = denycache.New(s.Store, denycache.Options{Entries: o.DenyCache})
		s.Store = s.deny
	}
	return s, nil
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

// Leases returns the units that the leases have moved.
func (s *Stacked) Leases() lease.Stats {
	if s.leases == nil {
		return lease.Stats{}
	}
	return s.leases.Stats()
}
