package admin

import (
	"errors"
	"net/http"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/sim"
)

// simulator runs one simulation at a time: each takes a core for a fraction of a
// second, and decisions must not wait for pictures.
type simulator struct{ turn chan struct{} }

func newSimulator() *simulator { return &simulator{turn: make(chan struct{}, 1)} }

// run answers ?preset=P&limit=L with what weir sim --json prints.
func (s *simulator) run(w http.ResponseWriter, r *http.Request) {
	preset, text := r.URL.Query().Get("preset"), r.URL.Query().Get("limit")
	p := sim.Find(preset)
	if p == nil {
		api.Fail(w, &weir.InputError{Field: "preset", Problem: "there is no such preset; /v1/sim/presets lists them"})
		return
	}
	var limit weir.Limit
	var err error
	if text != "" {
		if limit, err = sim.ParseLimit(text); err != nil {
			api.Fail(w, err)
			return
		}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-r.Context().Done():
		return // who asked has gone
	}
	report, err := sim.Run(r.Context(), p, limit)
	if err != nil {
		if input := (*weir.InputError)(nil); errors.As(err, &input) {
			err = &weir.InputError{Field: "limit", Problem: err.Error()}
		}
		api.Fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, http.StatusOK, report)
}

// presets lists what there is to simulate.
func (s *simulator) presets(w http.ResponseWriter, _ *http.Request) {
	type preset struct {
		Name     string `json:"name"`
		About    string `json:"about"`
		Shows    string `json:"shows"`
		Limit    string `json:"limit"`
		LengthMS int64  `json:"length_ms"`
		StepMS   int64  `json:"step_ms"`
	}
	list := make([]preset, 0, len(sim.Presets))
	for _, p := range sim.Presets {
		list = append(list, preset{p.Name, p.About, p.Shows, sim.Spell(p.Limit), p.Length.Milliseconds(), p.Step.Milliseconds()})
	}
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, http.StatusOK, map[string]any{"presets": list})
}
