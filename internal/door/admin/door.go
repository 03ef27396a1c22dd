// Package admin is the door for those who run Weir: it shows what goes on and
// why, and will be where they step in.
package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/internal/door/check"
	"github.com/weirhq/weir/internal/door/guard"
)

// Options is what the door looks into.
type Options struct {
	Gate *gate.Gate
}

// New returns the door's handler. It asks nobody who they are: that is for the
// guard in front of it. It is safe for concurrent use.
func New(o Options) http.Handler {
	return &door{o, map[string]route{
		"/v1/explain": {http.MethodPost, (*door).explain},
	}}
}

type door struct {
	Options
	routes map[string]route
}

type route struct {
	method string
	serve  func(*door, http.ResponseWriter, *http.Request)
}

// ServeHTTP implements http.Handler.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, ok := d.routes[r.URL.Path]
	switch {
	case !ok:
		guard.Refuse(w, guard.Problem{Status: http.StatusNotFound, Detail: "there is nothing at this path"})
	case r.Method != route.method:
		w.Header().Set("Allow", route.method)
		guard.Refuse(w, guard.Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + route.method})
	default:
		route.serve(d, w, r)
	}
}

// explain says what a described request would be answered and why. Nothing is
// charged.
func (d *door) explain(w http.ResponseWriter, r *http.Request) {
	call, ok := check.ReadCall(w, r)
	if !ok {
		return
	}
	explanation, err := d.Gate.Explain(r.Context(), call)
	var input *weir.InputError
	switch {
	case errors.As(err, &input):
		guard.Refuse(w, guard.Problem{Status: http.StatusBadRequest, Field: input.Field, Detail: input.Error()})
	case err != nil:
		guard.Refuse(w, guard.Problem{Status: http.StatusServiceUnavailable, Detail: "the request could not be looked into"})
	default:
		write(w, explanation)
	}
}

// write answers 200 with a JSON body. A peer that has gone away needs none.
func write(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		guard.Refuse(w, guard.Problem{Status: http.StatusInternalServerError, Detail: "the answer could not be written"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n'))
}
