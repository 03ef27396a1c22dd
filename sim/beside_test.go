package sim_test

import (
	"testing"

	"github.com/weirhq/weir/sim"
)

func beside(t *testing.T, preset string) map[string]sim.Row {
	t.Helper()
	rows := map[string]sim.Row{}
	for _, row := range run(t, preset, "").Beside {
		rows[row.Case] = row
	}
	return rows
}

// Ten thousand at one moment: with jitter more get in, and the peak is lower.
func TestJitterSparesTheHerd(t *testing.T) {
	peak := func(r sim.Row) (most int) {
		for _, p := range r.Timeline {
			most = max(most, p.Offered)
		}
		return most
	}
	rows := beside(t, "herd")
	told, jittered := rows["at the moment told"], rows["with jitter"]
	if peak(told) != 10_000 || told.Admitted != 1000 {
		t.Errorf("without jitter: a peak of %d, %d admitted", peak(told), told.Admitted)
	}
	if peak(jittered) > 700 || jittered.Admitted < 2900 || jittered.Offered != 10_000 {
		t.Errorf("with jitter: a peak of %d, %d of %d admitted", peak(jittered), jittered.Admitted, jittered.Offered)
	}
}

// The store's clock is the only one, so skew changes nothing; who believes
// clients' clocks admits everything, who reads and then writes too much.
func TestSkew(t *testing.T) {
	rows := beside(t, "skew")
	if got := rows["weir"]; got.WorstWindow > 200 || got.Admitted > 400 {
		t.Errorf("weir: %d admitted, %d in a window", got.Admitted, got.WorstWindow)
	}
	if got := rows["a script on clients' clocks"]; got.Admitted != got.Offered {
		t.Errorf("the script: %d of %d admitted; the skew should have minted them all", got.Admitted, got.Offered)
	}
	if got := rows["get, then increment"]; got.WorstWindow <= 100 {
		t.Errorf("get, then increment: %d in a window; the race should have let more than 100 in", got.WorstWindow)
	}
}

func TestInstances(t *testing.T) {
	rows := beside(t, "instances")
	plain, leased, alone := rows["shared, no leases"], rows["shared, leases of 10 %"], rows["nothing shared"]
	const burst, overshoot = 5000, 500
	// In 40 seconds: the burst, and what comes back.
	if most := burst + 5000*40/60; plain.Admitted > most || leased.Admitted > most {
		t.Errorf("shared: %d and %d admitted, at most %d", plain.Admitted, leased.Admitted, most)
	}
	if leased.WorstWindow > plain.WorstWindow+overshoot {
		t.Errorf("leases: %d in a window beside %d, more than max_overshoot allows", leased.WorstWindow, plain.WorstWindow)
	}
	if leased.Asked > plain.Asked*2/3 {
		t.Errorf("leases asked the store %d times, without them %d", leased.Asked, plain.Asked)
	}
	if alone.Admitted != alone.Offered {
		t.Errorf("nothing shared: %d of %d admitted; four whole limits should have done", alone.Admitted, alone.Offered)
	}
}

// A minute without the store, ten requests a second, three instances, 100/min.
func TestOutage(t *testing.T) {
	during := func(r sim.Row) (n int) {
		for _, p := range r.Timeline {
			if p.TMS >= 60_000 && p.TMS < 120_000 {
				n += p.Admitted
			}
		}
		return n
	}
	rows := beside(t, "outage")
	for name, want := range map[string][2]int{ // from, to
		"open":   {600, 600},
		"closed": {0, 0},
		"local":  {590, 600}, // each instance 100 at first and 100 a minute
		"share":  {190, 200}, // each a third of that
	} {
		if got := during(rows[name]); got < want[0] || got > want[1] {
			t.Errorf("%s: %d admitted while the store was away, want %d to %d", name, got, want[0], want[1])
		}
	}
}
