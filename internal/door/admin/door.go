// Package admin is the door for those who run Weir: it shows what goes on and
// why, and will be where they step in.
package admin

import (
	"net/http"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/internal/door/api"
)

// Options is what the door looks into.
type Options struct {
	Gate *gate.Gate
}

// New returns the door's handler. It asks nobody who they are: that is for the
// token in front of it. It is safe for concurrent use.
func New(o Options) http.Handler {
	d := &door{o}
	return api.Routes{
		"/v1/explain": {Method: http.MethodPost, Serve: d.explain},
	}
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
