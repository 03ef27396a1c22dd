package daemon

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe/logs"
	"github.com/weirhq/weir/observe/metrics"
	"github.com/weirhq/weir/observe/refusals"
	"github.com/weirhq/weir/observe/stream"
	"github.com/weirhq/weir/observe/top"
	"github.com/weirhq/weir/observe/trace"
	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/redisstore"
)

// watchers are what looks at the decisions of a daemon.
type watchers struct {
	metrics  *metrics.Metrics
	top      *top.Top
	refusals *refusals.Refusals
	logs     *logs.Refusals
	spoilt   *logs.Unreadable
	stream   *stream.Stream // or nil
	tracer   *trace.Tracer  // or nil
	doors    []string       // as decisions name them

	secret      []byte // of key hashes
	openMetrics bool   // scraping needs no token
}

// openWatchers makes what looks at decisions, before there is anything to look at.
func (c *Config) openWatchers() (*watchers, error) {
	tracer, err := c.openTracer()
	if err != nil {
		return nil, err
	}
	o := metrics.Options{Version: version()}
	if tracer != nil {
		o.Trace = tracer.ID
	}
	w := &watchers{
		metrics: metrics.New(o), tracer: tracer, top: top.New(top.Options{}),
		refusals: refusals.New(), logs: logs.NewRefusals(c.Log, c.Store.Secret), spoilt: logs.NewUnreadable(c.Log, c.Store.Secret),
		secret: c.Store.Secret, openMetrics: c.File != nil && c.File.Admin.OpenMetrics,
	}
	for i := range c.Doors {
		switch name := c.Doors[i].Name; name {
		case "admin":
		case "http":
			w.doors = append(w.doors, name, "auth")
		default:
			w.doors = append(w.doors, name)
		}
	}
	w.stream, err = c.openStream()
	return w, err
}

// openTracer returns what makes spans, or nil where the environment names no
// collector.
func (c *Config) openTracer() (*trace.Tracer, error) {
	failed := outageLog{log: c.Log, what: "spans cannot be exported; those that do not fit their queue are lost"}
	return trace.FromEnvironment(context.Background(), trace.Options{
		Version: version(), Instance: instanceName(), Secret: c.Store.Secret, OnError: failed.hear,
	})
}

// traced puts a span around the requests of a door.
func (w *watchers) traced(door string, passes bool, next http.Handler) http.Handler {
	if w == nil || w.tracer == nil {
		return next
	}
	return w.tracer.HTTP(door, passes, next)
}

// begin returns what begins the span of a question at a door that is no HTTP, or
// nil.
func (w *watchers) begin(door string) func(context.Context, func(string) string) (context.Context, func()) {
	if w == nil || w.tracer == nil {
		return nil
	}
	return func(ctx context.Context, field func(string) string) (context.Context, func()) {
		return w.tracer.Begin(ctx, door, field)
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}

// openStream returns where events go, or nil for nowhere.
func (c *Config) openStream() (*stream.Stream, error) {
	if c.File == nil || c.File.Events.RedisStream == "" && c.File.Events.File == "" {
		return nil, nil
	}
	e := &c.File.Events
	var sink stream.Sink
	var err error
	switch {
	case e.File != "":
		sink, err = stream.ToFile(stream.FileOptions{Path: e.File, Bytes: int64(e.SegmentMiB) << 20, Keep: e.Segments})
	case !c.Store.shared():
		c.Log.Warn("events.redis_stream needs a store in Redis, so no events are written; events.file needs none", "file", c.File.Name)
		return nil, nil
	default:
		sink, err = stream.ToRedis(c.Store.URL, stream.RedisOptions{Key: e.RedisStream, MaxLen: int64(e.MaxLen), MaxAge: e.MaxAge, Conn: c.Store.Conn})
	}
	if err != nil {
		return nil, &PolicyError{fmt.Errorf("%s: events: %w", c.File.Name, err)}
	}
	return stream.New(sink, stream.Options{
		Admitted: int(e.Admitted), Instance: instanceName(), Secret: c.Store.Secret,
		OnError: func(err error) {
			c.Log.Warn("events cannot be written; they wait in a buffer, and what does not fit is lost and counted", "error", err.Error())
		},
	}), nil
}

// instanceName names this process among others: the host, and a few random bytes.
var instanceName = sync.OnceValue(func() string {
	random := make([]byte, 4)
	rand.Read(random) // never fails: see crypto/rand
	host, err := os.Hostname()
	if err != nil {
		host = "weir"
	}
	return host + "-" + hex.EncodeToString(random)
})

// list returns the observers.
func (w *watchers) list() []weir.Observer {
	all := []weir.Observer{w.metrics, w.top, troubled{w.refusals, w.logs, w.spoilt}}
	if w.stream != nil {
		all = append(all, w.stream)
	}
	if w.tracer != nil {
		all = append(all, w.tracer)
	}
	return all
}

// flight counts a call of the store.
func (w *watchers) flight(f redisstore.Flight) { w.metrics.Call(f.Bills, f.Queued, f.Took) }

// look says where metrics find what other rooms count.
func (w *watchers) look(c *Core, store weir.Store) {
	s := metrics.Sources{DenyHits: c.layers.DenyHits, LogsSuppressed: w.logs.Suppressed}
	s.Leases = func() metrics.Leases {
		l := c.layers.Leases()
		return metrics.Leases{Borrowed: l.Borrowed, Spent: l.Spent, Returned: l.Returned, Out: l.Out, Peak: l.Peak}
	}
	switch store := store.(type) {
	case *redisstore.Store:
		s.BreakerOpen = func() bool { return !store.Health().Up }
		s.Unknown, s.ClockOffset, s.Instances = store.Unknown, store.ClockOffset, c.heartbeats.Instances
		s.Losses = func() metrics.Losses { return metrics.Losses(c.Losses()) }
		s.Debts = c.Limiter.Debts
		s.Regions = c.regionFigures()
	case *weir.Memory:
		s.Memory = func() metrics.Memory {
			m := store.Stats()
			return metrics.Memory{Keys: int64(m.Balances), Bytes: m.Bytes, Evicted: m.Evicted, Stepped: m.Stepped}
		}
	}
	if w.stream != nil {
		s.EventsWritten, s.EventsDropped = w.stream.Written, w.stream.Dropped
	}
	w.metrics.Read(s)
}

// enforced says that f is in force, nil being no policy.
func (w *watchers) enforced(c *Core, f *policyfile.File) {
	if w == nil {
		return
	}
	var rules []metrics.Rule
	for _, r := range c.Gate.Policy().Rules() {
		rules = append(rules, metrics.Rule{Name: r.Name, Shadow: r.Mode.String() == "shadow", Try: r.Try != (weir.Limit{})})
	}
	w.metrics.Expect(rules, c.store, w.doors)
	version := "none"
	if f != nil {
		version = f.Version
	}
	w.metrics.Reloaded(true, version)
}

// rejected says that a changed file is wrong.
func (w *watchers) rejected() {
	if w != nil {
		w.metrics.Reloaded(false, "")
	}
}

// lastSpans is how long a collector may take over the last spans.
const lastSpans = 3 * time.Second

// close writes what is buffered. Nothing may be decided any more.
func (w *watchers) close(log *slog.Logger) error {
	if w.tracer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
		defer cancel()
		if err := w.tracer.Close(ctx); err != nil {
			log.Warn("the last spans were not exported", "error", err.Error())
		}
	}
	if w.stream == nil {
		return nil
	}
	began := time.Now()
	err := w.stream.Close()
	log.Info("events are written", "written", w.stream.Written(), "dropped", w.stream.Dropped(), "took", time.Since(began).String())
	return err
}
