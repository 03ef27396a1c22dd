// Package admin is the door for those who run Weir: it shows what goes on and
// why, on a page too, and is where they step in.
package admin

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/observe/refusals"
	"github.com/weirhq/weir/observe/stream"
	"github.com/weirhq/weir/observe/top"
)

// Options is what the door looks into.
type Options struct {
	Gate *gate.Gate
	// Drills makes the store fail on purpose; nil does not allow it.
	Drills Drills
	// Modes switches modes; nil has no /v1/mode.
	Modes Modes
	// Metrics are what the page shows as it happens; nil shows nothing.
	Metrics prometheus.Gatherer
	// Scrape serves the metrics; nil has no /metrics.
	Scrape http.Handler
	// Top and Refusals know what was decided lately, and Events what stands in the
	// stream of events, of an ID; nil knows nothing.
	Top      *top.Top
	Refusals *refusals.Refusals
	Events   func(ctx context.Context, id string) (stream.Event, bool)
	// Descriptors says a key of the rate limit service for people; nil, or false, is
	// a key that it did not make.
	Descriptors func(key string) (string, bool)
	// Limiter is stepped in to; nil has no resets and no blocks. Every one is
	// written to Log, keys as hashes under Secret.
	Limiter *weir.Limiter
	Log     *slog.Logger
	Secret  []byte
	// Closing ends what would go on for ever, or is nil.
	Closing <-chan struct{}
}

// New returns the door's handler. It asks nobody who they are: that is for the
// token in front of it. It is safe for concurrent use.
func New(o Options) http.Handler {
	d := &door{o}
	simulator := newSimulator()
	routes := api.Routes{
		"/v1/explain":     {Method: http.MethodPost, Serve: d.explain},
		"/v1/policy":      {Method: http.MethodGet, Serve: d.policy},
		"/v1/sim":         {Method: http.MethodGet, Serve: simulator.run},
		"/v1/sim/presets": {Method: http.MethodGet, Serve: simulator.presets},
	}
	routes["/v1/drill"] = api.Route{Method: http.MethodPost, Serve: d.drill}
	if o.Modes != nil {
		routes["/v1/mode"] = api.Route{Method: http.MethodPost, Serve: d.mode}
	}
	if o.Limiter != nil {
		routes["/v1/reset"] = api.Route{Method: http.MethodPost, Serve: d.reset}
		routes["/v1/block"] = api.Route{Method: http.MethodPost, Serve: d.block}
		routes["/v1/unblock"] = api.Route{Method: http.MethodPost, Serve: d.unblock}
	}
	if o.Scrape != nil {
		routes["/metrics"] = api.Route{Method: http.MethodGet, Serve: o.Scrape.ServeHTTP}
	}
	if o.Top != nil {
		routes["/v1/top"] = api.Route{Method: http.MethodGet, Serve: d.top}
	}
	if o.Refusals != nil {
		routes["/v1/why"] = api.Route{Method: http.MethodGet, Serve: d.why}
	}
	pageRoutes(routes)
	if o.Metrics != nil {
		routes["/v1/live"] = api.Route{Method: http.MethodGet, Serve: newLive(o.Metrics, o.Closing).ServeHTTP}
	}
	return routes
}

type door struct{ Options }

// explain says what a described request would be answered and why. Nothing is
// charged.
func (d *door) explain(w http.ResponseWriter, r *http.Request) {
	var q *api.Described
	if !api.Read(w, r, func(body *api.Body) (err error) { q, err = body.Described(); return err }) {
		return
	}
	explanation, err := d.Gate.Explain(r.Context(), &q.Call)
	if err != nil {
		api.Fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, http.StatusOK, explanation)
}
