package top

import (
	"cmp"
	"slices"
	"time"
)

// Report is what was asked for most since a while.
type Report struct {
	Since    time.Time
	Asked    int64 // requests in all, each charge being one
	Refused  int64
	Hottest  []Count // by requests
	Refusals []Count // by refusals
}

// Count is what is known of one key.
type Count struct {
	Rule, Key       string // Rule is the policy's, or adhoc
	AtLeast, AtMost int64  // requests: both are certain
}

// Report returns the n keys asked for most and the n refused most.
func (t *Top) Report(n int) Report {
	t.turn(t.window.Load())
	w := t.window.Load()
	asked, refused := tally{at: map[uint64]int{}}, tally{at: map[uint64]int{}}
	for _, both := range [...]func(*tally, *sketch){(*tally).list, (*tally).bound} {
		w.each(func(p *part) {
			both(&asked, &p.asked)
			if p.refused != nil {
				both(&refused, p.refused)
			}
		})
	}
	return Report{Since: w.before.since, Asked: asked.seen, Refused: refused.seen, Hottest: asked.most(n), Refusals: refused.most(n)}
}

// each has f look at every part of w and of the window before it, locked.
func (w *window) each(f func(*part)) {
	for _, one := range [...]*window{w, w.before} {
		for i := range one.parts {
			if p := one.parts[i].Load(); p != nil {
				p.mu.Lock()
				f(p)
				p.mu.Unlock()
			}
		}
	}
}

// tally is what several sketches say together.
type tally struct {
	seen int64
	all  []known
	at   map[uint64]int // where in all a hash is
}

// known is a Count by its key's hash.
type known struct {
	hash uint64
	Count
}

// list adds the keys that have a place.
func (t *tally) list(s *sketch) {
	t.seen += s.seen
	for i := range s.sets {
		for j := range s.sets[i] {
			p := &s.sets[i][j]
			if p.hash == 0 {
				continue
			}
			k, met := t.at[p.hash]
			if !met {
				k = len(t.all)
				t.at[p.hash] = k
				t.all = append(t.all, known{p.hash, Count{Rule: p.name.rule, Key: string(p.name.key)}})
			}
			t.all[k].AtLeast += p.count
		}
	}
}

// bound adds how often each key may have been counted at most.
func (t *tally) bound(s *sketch) {
	for i := range t.all {
		t.all[i].AtMost += s.estimate(t.all[i].hash)
	}
}

// most returns the n keys that are asked for most: by what is certain, so that a
// key which only shares counters with a large one does not come before a key that
// is.
func (t *tally) most(n int) []Count {
	slices.SortFunc(t.all, func(a, b known) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(b.AtMost, a.AtMost), cmp.Compare(a.Key, b.Key))
	})
	counts := []Count{}
	for _, k := range t.all[:min(n, len(t.all))] {
		counts = append(counts, k.Count)
	}
	return counts
}
