package daemon

import (
	"fmt"
	"log/slog"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe/metrics"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/regions"
)

// openRegions begins the exchange with other regions and returns the store with
// what listens in front of it, which closes both; without peers, or with balances in memory, the
// store itself.
func openRegions(s StoreConfig, store weir.Store, log *slog.Logger) (*regions.Service, weir.Store, error) {
	shared, ok := store.(*redisstore.Store)
	if len(s.Peers) == 0 {
		return nil, store, nil
	}
	if !ok {
		log.Warn("regions need a store in Redis; this instance's limits are its own")
		return nil, store, nil
	}
	service, err := regions.Start(regions.Options{
		Region: s.Regions.Name, Peers: s.Peers, Interval: s.Regions.Interval, Lag: s.Regions.Lag,
		Store: shared, URL: s.URL, Conn: s.Conn,
		OnError: func(what string, err error) {
			if err == nil {
				log.Info("it is well again", "what", what)
				return
			}
			log.Warn(what, "error", err.Error())
		},
	})
	if err != nil {
		return nil, nil, &StoreError{fmt.Errorf("a region's store: %w", err)}
	}
	return service, service.Front(store), nil
}

// shareRegions says which limits of p regions share, nil being no policy.
func (c *Core) shareRegions(p *policy.Policy) {
	front, ok := c.front.(*regions.Layer)
	switch {
	case !ok:
	case p == nil:
		front.Share(nil)
	default:
		front.Share(p.Shared())
	}
}

// regionFigures returns what is exported of regions, or nil where there is one.
func (c *Core) regionFigures() func() metrics.Regions {
	if c.regions == nil {
		return nil
	}
	return func() metrics.Regions {
		s := c.regions.Stats()
		r := metrics.Regions{
			Behind: s.Owed, CutOff: s.CutOff, Told: s.Told, Heard: s.Heard, Bytes: s.Bytes, Guessed: s.Guessed,
			Unread: s.Unread, Forgotten: s.Forgotten, Trip: s.Slowest, Bounds: map[string]int64{},
		}
		if p := c.Gate.Policy(); p != nil {
			for _, f := range p.Figures() {
				if f.Overshoot > 0 {
					r.Bounds[f.Rule.Name] = max(r.Bounds[f.Rule.Name], f.Overshoot)
				}
			}
		}
		return r
	}
}
