package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/oklog/run"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/rls"
	"github.com/weirhq/weir/policy/policyfile"
)

// Config is what Run runs.
type Config struct {
	// File is the policy, or nil for none: takes are answered and no rule
	// applies.
	File *policyfile.File
	// Watch puts changes of the file that File was read from in force, as they
	// are seen or when Reload asks.
	Watch bool
	// Shadow puts every rule in shadow for as long as the daemon runs, but for
	// those that are switched by name: the policy is tried and refuses nobody.
	Shadow bool
	Store  StoreConfig
	Doors  []Door
	// RLS says what the grpc door and /json answer, or nil for neither. Limiter,
	// Budget and Loaded are filled in.
	RLS *rls.Options

	Log       *slog.Logger
	Reload    <-chan os.Signal // or nil
	Observers []weir.Observer

	// Notice is how long doors stay open after they have begun to send clients
	// away. Grace is how long requests in flight may take after that.
	Notice, Grace time.Duration

	// Beside, if set, runs beside the doors once they are open, and is told where
	// they listen, by name. When its ctx ends the doors are still served.
	Beside func(ctx context.Context, addresses map[string]net.Addr) error
	// Reloaded, if set, is told of every reload.
	Reloaded func(error)
}

// Open opens the core without doors. The caller closes it.
func (c *Config) Open() (*Core, error) {
	who, err := openCallers(c.Store, c.Log)
	if err != nil {
		return nil, err
	}
	r, err := newRules(c.File, who, c.Log)
	if err != nil {
		return nil, errors.Join(err, who.Close())
	}
	core, err := openCore(c.Store, r, c.Observers, c.Log)
	if err != nil {
		return nil, errors.Join(err, who.Close())
	}
	core.callers = who
	core.modes = newModes(core.Gate, who.directory, c.Shadow, c.Log)
	return core, nil
}

// Run opens everything, serves until ctx ends, and closes everything in reverse
// order. Requests in flight are answered before it returns.
func Run(ctx context.Context, c Config) (err error) {
	for i := range c.Doors {
		if err := c.Doors[i].Listen.check(c.Doors[i].Name); err != nil {
			return err
		}
		if l := &c.Doors[i].Listen; l.NeedsToken && l.Token != "" && len(l.Token) < shortToken {
			c.Log.Warn("the token is short and could be guessed", "door", c.Doors[i].Name, "shorter_than", shortToken)
		}
	}
	changed, stop, err := c.watch()
	if err != nil {
		return err
	}
	defer stop()
	watchers, err := c.openWatchers()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watchers.close(c.Log)) }()
	c.Observers = append(c.Observers, watchers.list()...)
	c.Store.OnFlight = watchers.flight
	core, err := c.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, core.Close()) }()
	core.watchers = watchers
	watchers.look(core, core.bare)
	watchers.enforced(core, c.File)
	if err := c.openRLS(core); err != nil {
		return err
	}
	return c.serve(ctx, core, changed)
}

// serve opens the doors and runs them. The first actor to end ends all; the one
// that waits for ctx ends only when clients have had their notice.
func (c *Config) serve(ctx context.Context, core *Core, changed <-chan struct{}) error {
	servers := make([]Server, len(c.Doors))
	listeners := make([]*doorListener, 0, len(c.Doors))
	addresses := make(map[string]net.Addr, len(c.Doors))
	files, parts := descriptors(), partsOf(c.Doors)
	most := connectionCap(files, clientParts, parts)
	core.upstreams = connectionCap(files, upstreamParts, parts)
	for i := range c.Doors {
		d := &c.Doors[i]
		server, err := d.Open(core, d.Name, &d.Listen)
		if err != nil {
			return errors.Join(err, closeAll(listeners))
		}
		listener, err := d.Listen.open(d.Name, most, func() {
			c.Log.Warn("the door is full; further connections are closed at once", "door", d.Name, "connections", most)
		}, core.trusts)
		if err != nil {
			return errors.Join(err, closeAll(listeners))
		}
		servers[i], listeners, addresses[d.Name] = server, append(listeners, listener), listener.Addr()
	}
	var group run.Group
	stop := func() {}
	defer func() { stop() }()
	ended, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Add(func() error {
		select {
		case <-ctx.Done():
			c.giveNotice(ended, core, servers)
		case <-ended.Done():
		}
		return nil
	}, func(error) { end() })
	grace := sync.OnceValue(func() context.Context { // one for all doors, from when the first closes
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
		stop = cancel
		return deadline
	})
	var leaving sync.WaitGroup // all at once: what one has in flight must not eat the time of the next
	for i := range servers {
		group.Add(func() error { return servers[i].Serve(listeners[i]) }, func(error) {
			leaving.Go(func() {
				listeners[i].backlog.leave()
				if err := servers[i].Shutdown(grace()); err != nil {
					c.Log.Warn("requests were cut off", "door", c.Doors[i].Name, "error", err)
				}
			})
		})
	}
	if c.Watch {
		group.Add(func() error { return c.reloads(ended, core, servers, changed) }, func(error) { end() })
	}
	if core.RLS != nil {
		group.Add(func() error { core.RLS.Watch(ended); return nil }, func(error) { end() })
	}
	for _, d := range c.Doors {
		c.Log.Info("open", "door", d.Name, "address", addresses[d.Name].String(), "store", core.store)
	}
	if c.Beside != nil {
		beside, leave := context.WithCancel(ctx)
		group.Add(func() error { return c.Beside(beside, addresses) }, func(error) { leave() })
	}
	err := group.Run()
	leaving.Wait()
	return err
}

func closeAll(listeners []*doorListener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// giveNotice tells balancers and clients to go elsewhere and gives them time.
func (c *Config) giveNotice(ctx context.Context, core *Core, servers []Server) {
	core.draining.Store(true)
	c.Log.Info("draining", "notice", c.Notice.String(), "grace", c.Grace.String())
	for _, s := range servers {
		s.Drain()
	}
	notice := time.NewTimer(c.Notice)
	defer notice.Stop()
	select {
	case <-notice.C:
	case <-ctx.Done():
	}
}
