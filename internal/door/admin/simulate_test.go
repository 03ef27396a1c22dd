package admin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/weirhq/weir/sim"
)

func TestSimulate(t *testing.T) {
	h := newDoor(t)
	w := ask(h, "GET", "/v1/sim?"+url.Values{"preset": {"edge"}, "limit": {"100/min"}}.Encode())
	var report sim.Report
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	if got := report.Algorithms[1]; got.Algorithm != "fixed_window" || got.WorstWindow != 200 {
		t.Errorf("%s admits %d in a window", got.Algorithm, got.WorstWindow)
	}
	var list struct {
		Presets []struct{ Name, Limit string }
	}
	w = ask(h, "GET", "/v1/sim/presets")
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Presets) != len(sim.Presets) {
		t.Fatal(err, len(list.Presets))
	}
	for _, p := range list.Presets {
		if w := ask(h, "GET", "/v1/sim?"+url.Values{"preset": {p.Name}, "limit": {p.Limit}}.Encode()); w.Code != http.StatusOK {
			t.Errorf("%s against its own limit %s: %d %s", p.Name, p.Limit, w.Code, w.Body)
		}
	}
}

func TestSimulateWrongly(t *testing.T) {
	h := newDoor(t)
	for query, field := range map[string]string{
		"preset=edg":                       "preset",
		"":                                 "preset",
		"preset=edge&limit=10r/s":          "limit",
		"preset=edge&limit=6000/min":       "limit",
		"preset=edge&limit=unlimited":      "limit",
		"preset=edge&limit=1/s+burst%3D-1": "limit",
	} {
		w := ask(h, "GET", "/v1/sim?"+query)
		var problem struct{ Field, Detail string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusBadRequest || problem.Field != field || problem.Detail == "" {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
