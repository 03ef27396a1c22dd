// Package daemon puts the rooms together: a store, a limiter, the gate and the
// doors in front of it, opened in that order and closed in reverse.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/door/check"
	"github.com/weirhq/weir/internal/door/rls"
	"github.com/weirhq/weir/layer"
	"github.com/weirhq/weir/observe"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/regions"
)

// Core is one engine: what doors stand in front of. It is safe for concurrent
// use.
type Core struct {
	Limiter *weir.Limiter
	Gate    *gate.Gate
	RLS     *rls.Service // or nil

	log         *slog.Logger
	format      atomic.Pointer[headers.Format]
	signing     *signing
	store       string   // as decisions name it
	callers     *callers // kept in the store
	layers      *layer.Stacked
	heartbeats  *redisstore.Heartbeats // of a shared store, or nil
	watch       *redisstore.Watch      // of a shared store, or nil
	regions     *regions.Service       // or nil
	front       weir.Store             // the store as the layers see it
	bare        weir.Store             // the store itself, without layers
	probe       *weir.Limiter          // asks it, unobserved
	watchers    *watchers              // nil where nobody serves
	modes       *modes
	drills      *drills // nil where they are not allowed
	draining    atomic.Bool
	upstreams   int                    // connections that a proxy may open
	policyFault atomic.Pointer[string] // what the last reload said, or nil

	// identityHeaders are those by which the policy knows who a client is.
	identityHeaders atomic.Pointer[[]string]
}

// Format returns the header format of the policy in force.
func (c *Core) Format() *headers.Format { return c.format.Load() }

// IdentityHeaders returns the headers by which the policy in force knows who a
// client is. They must not be changed.
func (c *Core) IdentityHeaders() []string { return *c.identityHeaders.Load() }

// observers is many observers as one.
type observers []weir.Observer

// Observe implements weir.Observer.
func (o observers) Observe(ctx context.Context, e weir.Event) {
	for _, one := range o {
		one.Observe(ctx, e)
	}
}

// ObserveAll implements observe.Batch.
func (o observers) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	for _, one := range o {
		if all, ok := one.(observe.Batch); ok {
			all.ObserveAll(ctx, bills, elapsed)
			continue
		}
		for _, b := range bills {
			one.Observe(ctx, weir.Event{Bill: b, Elapsed: elapsed})
		}
	}
}

// troubled are observers that have nothing to do with a bill which its store
// admitted, and are not told of those: a batch of nothing else is looked through once,
// and the code of each is not fetched for nothing.
type troubled []weir.Observer

// Observe implements weir.Observer.
func (t troubled) Observe(ctx context.Context, e weir.Event) {
	if trouble(e.Bill) {
		observers(t).Observe(ctx, e)
	}
}

// ObserveAll implements observe.Batch.
func (t troubled) ObserveAll(ctx context.Context, bills []*weir.Bill, elapsed time.Duration) {
	if slices.ContainsFunc(bills, trouble) {
		observers(t).ObserveAll(ctx, bills, elapsed)
	}
}

func trouble(b *weir.Bill) bool { return !b.Allowed || b.Err != nil }

// openCore opens the store and puts r in force.
func openCore(s StoreConfig, r *rules, watchers []weir.Observer, log *slog.Logger) (*Core, error) {
	s.Notify = func(h redisstore.Health) { tellHealth(log, h) }
	var drilling *drills
	if s.Drills && s.shared() {
		drilling = &drills{log: log}
		s.through = drilling.through
	}
	store, err := OpenStore(s)
	if err != nil {
		return nil, err
	}
	service, front, err := openRegions(s, store, log)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	layers, err := layer.Stack(front, layer.Options{Overshoot: s.Overshoot})
	if err != nil {
		return nil, errors.Join(err, front.Close())
	}
	options := weir.Options{Store: layers.Store}
	if len(watchers) > 0 {
		options.Observer = observers(watchers)
	}
	c := &Core{log: log, layers: layers, regions: service, front: front, bare: store, store: store.Caps().Source, signing: openSigning(s.Secret, store), drills: drilling}
	if shared, ok := store.(*redisstore.Store); ok {
		c.heartbeats = shared.Heartbeats()
		options.Instances = c.heartbeats.Instances
		c.watch = shared.Watch(func(n redisstore.Notice) { tellNotice(log, n) })
	}
	if c.Limiter, err = weir.New(options); err != nil {
		c.signing.close()
		return nil, errors.Join(err, c.endWatching(), layers.Close())
	}
	if c.probe, err = weir.New(weir.Options{Store: store}); err != nil {
		c.signing.close()
		return nil, errors.Join(err, c.endWatching(), c.Limiter.Close())
	}
	c.Gate = gate.New(c.Limiter, r.resolver, r.policy)
	c.Gate.SetObserver(options.Observer)
	c.enforce(r)
	return c, nil
}

// tellHealth writes one line when the store goes away and one when it is back.
func tellHealth(log *slog.Logger, h redisstore.Health) {
	if h.Up {
		log.Info("the store decides again")
		return
	}
	log.Warn("the store is away: limits give their stated answers until it is back", "kind", h.Kind)
}

// Close takes this instance out of the count, closes the limiter, which pays what it
// owes, with the exchange between regions and the store, and what knows the callers.
func (c *Core) Close() error {
	c.modes.close()
	c.signing.close()
	if c.drills != nil {
		c.drills.injector.End()
	}
	return errors.Join(c.endWatching(), c.Limiter.Close(), c.callers.Close())
}

// endWatching ends what goes on beside the decisions.
func (c *Core) endWatching() error {
	if c.heartbeats == nil {
		return nil
	}
	return errors.Join(c.watch.Close(), c.heartbeats.Close())
}

// probeSpace keeps the balance that readiness looks at out of everybody's way.
const probeSpace = "readyz"

// Status asks the store and says how the daemon is.
func (c *Core) Status(ctx context.Context) check.Status {
	s := check.Status{Ready: true, Status: "ready", Store: c.store}
	if fault := c.policyFault.Load(); fault != nil {
		s.Status, s.Policy = "degraded", *fault
	}
	s.ClientIP = distrustOf(c.Gate.Resolver())
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	charge := weir.PerSecond(1).Charge("probe")
	charge.Space = probeSpace
	bill := weir.Bill{Verb: algo.Peek, Charges: []weir.Charge{charge}}
	err := c.probe.Decide(ctx, &bill)
	var fault *weir.StoreError
	switch {
	case err != nil:
		s.Status, s.Cause = "degraded", "timeout"
	case errors.As(bill.Err, &fault):
		s.Status, s.Cause = "degraded", fault.Kind
	}
	if c.draining.Load() {
		s.Ready, s.Status = false, "draining"
	}
	return s
}

// distrustOf says what came of headers that were ignored because of who sent
// them, or nothing where none were. A daemon behind a proxy that nobody named is
// at work and limits all clients as one, which is hard to guess from outside.
func distrustOf(r *identity.Resolver) string {
	count, first := r.Distrusted()
	if len(first) == 0 {
		return ""
	}
	s := first[0].String()
	if count > 1 {
		s += fmt.Sprintf("; %d requests so far", count)
	}
	return s
}
