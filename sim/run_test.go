package sim_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/sim"
)

func run(t *testing.T, preset, limit string) *sim.Report {
	t.Helper()
	var l weir.Limit
	if limit != "" {
		var err error
		if l, err = sim.ParseLimit(limit); err != nil {
			t.Fatal(err)
		}
	}
	r, err := sim.Run(context.Background(), sim.Find(preset), l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The order of the contract, and the most that each algorithm admits in any
// window under the traffic that is worst for it.
func TestWorstWindows(t *testing.T) {
	for _, c := range []struct {
		preset, limit string
		want          map[string]int
	}{
		{"edge", "", map[string]int{"token_bucket": 199, "fixed_window": 200, "sliding_window": 198, "sliding_log": 100, "leaky_bucket": 100}},
		{"burst", "", map[string]int{"token_bucket": 103, "fixed_window": 200, "sliding_window": 101, "sliding_log": 100, "leaky_bucket": 2}},
		{"edge", "100/min burst=20", map[string]int{"token_bucket": 119, "fixed_window": 200, "sliding_window": 198, "sliding_log": 100, "leaky_bucket": 120}},
		{"edge", "100/min burst=100", map[string]int{"token_bucket": 199, "fixed_window": 200, "sliding_window": 198, "sliding_log": 100, "leaky_bucket": 200}},
	} {
		r := run(t, c.preset, c.limit)
		var order []string
		got := map[string]int{}
		for _, row := range r.Algorithms {
			order = append(order, row.Algorithm)
			got[row.Algorithm] = row.WorstWindow
		}
		if want := "token_bucket fixed_window sliding_log sliding_window leaky_bucket"; strings.Join(order, " ") != want {
			t.Errorf("%s: order %v", c.preset, order)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s against %q: got %v, want %v", c.preset, c.limit, got, c.want)
		}
	}
}

// No algorithm ever admits more in a window than its limit says it can.
func TestNothingPassesItsBound(t *testing.T) {
	for _, p := range sim.Presets {
		if p.Name == "outage" { // three instances by themselves are bounded three times over
			continue
		}
		r := run(t, p.Name, "")
		for i, row := range r.Algorithms {
			l, err := sim.As(p.Limit, sim.Algorithms[i])
			if err != nil {
				t.Fatal(err)
			}
			if int64(row.WorstWindow) > l.MostInPeriod() {
				t.Errorf("%s, %s: %d in a window, at most %d", p.Name, row.Algorithm, row.WorstWindow, l.MostInPeriod())
			}
		}
	}
}

func TestBurstIsAsTheContractSays(t *testing.T) {
	r := run(t, "burst", "")
	for _, row := range r.Algorithms {
		total := 0
		for _, p := range row.Timeline {
			total += p.Offered
			if want := p.TMS == 59_000 || p.TMS == 61_000; want != (p.Offered == 100) || !want && p.Offered != 0 {
				t.Errorf("%s: %d offered at %d ms", row.Algorithm, p.Offered, p.TMS)
			}
		}
		if total != 200 || row.Offered != 200 {
			t.Errorf("%s: %d offered, %d in the timeline", row.Algorithm, row.Offered, total)
		}
	}
	if fixed := r.Algorithms[1]; fixed.Worst2s != 200 {
		t.Errorf("fixed_window: %d in two seconds, want 200: both ends count", fixed.Worst2s)
	}
}

// The JSON of a preset that compares nothing has the contract's names and no
// others.
func TestJSON(t *testing.T) {
	b, err := json.Marshal(run(t, "burst", ""))
	if err != nil {
		t.Fatal(err)
	}
	var top map[string][]map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		t.Fatal(err)
	}
	if len(top) != 1 || len(top["algorithms"]) != 5 {
		t.Fatalf("%d members, %d algorithms", len(top), len(top["algorithms"]))
	}
	row := top["algorithms"][0]
	for _, name := range []string{"algorithm", "offered", "admitted", "worst_2s", "worst_window", "timeline"} {
		if row[name] == nil {
			t.Errorf("%s is missing", name)
		}
		delete(row, name)
	}
	for name := range row {
		t.Errorf("%s is one name too many", name)
	}
}

func TestRunsAreEqual(t *testing.T) {
	for _, p := range sim.Presets {
		if a, b := run(t, p.Name, ""), run(t, p.Name, ""); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two runs differ", p.Name)
		}
	}
}

func TestLimitsThatCannotBeShown(t *testing.T) {
	for text, want := range map[string]string{
		"unlimited": "unlimited has nothing to show",
		"100/day algorithm=fixed_window tz=Europe/Paris": "calendar periods",
		"6000/min": "under sliding_log",
	} {
		l, err := sim.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = sim.Run(context.Background(), sim.Find("burst"), l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSpell(t *testing.T) {
	for text, want := range map[string]string{
		"100/min":                                "100/min",
		"100/min burst=100":                      "100/min burst=100",
		"100/min burst=5 algorithm=token_bucket": "100/min burst=5",
		"100/min algorithm=sliding_log name=x":   "100/min",
	} {
		l, err := sim.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := sim.Spell(l); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if l, err = sim.As(l, algo.FixedWindow); err != nil || l.String() != "100/min algorithm=fixed_window" {
			t.Errorf("%s under fixed_window: %s, %v", text, l, err)
		}
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := sim.Run(ctx, sim.Find("herd"), weir.Limit{}); err == nil {
		t.Error("a run went on without its context")
	}
}
