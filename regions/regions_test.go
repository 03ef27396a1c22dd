package regions_test

import (
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
)

// TestOneLimit: three regions, each with its own server and process, admit
// together what the limit admits and at most the bound beyond it.
func TestOneLimit(t *testing.T) {
	w := newWorld(t, policy.ScopeGlobal, nil)
	const text = "20/s burst=40"
	limit, err := weir.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"a", "b"}
	began := time.Now()
	admitted := w.load(text, keys, 40, 3*time.Second)
	elapsed := time.Since(began)
	took, err := w.converge(keys, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	bound := w.figures.Overshoot(limit)
	for _, key := range keys {
		allowed := limit.Most() + int64(20*elapsed.Seconds()) + 1
		if got := w.total(key); got > allowed+bound {
			t.Errorf("%s: %d admitted in %s, %d beyond the limit; the bound is %d", key, got, elapsed, got-allowed, bound)
		} else {
			t.Logf("%s: %d admitted, %d beyond the limit; the bound is %d", key, got, got-allowed, bound)
		}
	}
	if got := w.total(keys...); got != admitted {
		t.Errorf("%d are in the counters and %d were admitted", got, admitted)
	}
	t.Logf("converged after %s", took)
	for _, n := range w.names {
		t.Logf("%s %+v", n, w.regions[n].do(order{Do: "stats"}).Stats)
	}
}
