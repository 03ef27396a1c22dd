package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/policy"
)

// tally counts what one rule did. Its memory grows with the callers it sees, not
// with the requests.
type tally struct {
	rule    *policy.Rule
	name    string
	trial   *tally // of the rule's try
	matched int64
	denied  int64
	number  int               // among the tallies of the run
	callers int64             // seen
	refused map[uint64]int64  // requests, by hash of the key
	texts   map[uint64]string // keys of the refused
	first   int64             // the first refusal, in microseconds; 0 for none
	last    int64
	worst   minute
	series  series
	// The admitted request that left the least of its limit, as remaining of limit.
	remaining, limit int64
}

// newTally adds the tally of a rule to the run.
func (run *Run) newTally(r *policy.Rule) *tally {
	t := &tally{rule: r, name: r.Name, number: run.tallies, refused: map[uint64]int64{}, texts: map[uint64]string{}, remaining: 1, limit: 1}
	run.tallies++
	if r.Try != (weir.Limit{}) {
		t.trial = run.newTally(&policy.Rule{Name: r.Name + " (try)"})
	}
	return t
}

// see notes that a key has been seen under a rule. All rules share one map of a
// bit for each, since most rules see the same keys: what it costs is to find the
// key in memory, and that is then done once for a request.
func (run *Run) see(t *tally, hash uint64) {
	key := hash + uint64(t.number/64)
	bits, bit := run.keyBits, uint64(1)<<(t.number%64)
	if key != run.keySeen {
		bits = run.seenBy[key]
	}
	if bits&bit == 0 {
		bits |= bit
		run.seenBy[key] = bits
		t.callers++
	}
	run.keySeen, run.keyBits = key, bits
}

// take counts a request that the rule charges with every step-th of charges. More
// than one charge is a path with several readings; refused under one is refused.
func (t *tally) take(run *Run, n *notes, charges []charged, step int) {
	t.matched++
	refused := false
	for i := 0; i < len(charges); i += step {
		c := &charges[i]
		switch {
		case !c.allowed && !refused:
			refused = true
			t.refuse(run, n, c)
			continue
		case c.limit > 0 && c.remaining*t.limit < t.remaining*c.limit:
			t.remaining, t.limit = c.remaining, c.limit
		}
		run.see(t, c.hash)
	}
}

// refuse counts a refused request of a caller.
func (t *tally) refuse(run *Run, n *notes, c *charged) {
	now := run.seen
	run.see(t, c.hash)
	t.denied++
	if t.refused[c.hash]++; t.refused[c.hash] == 1 {
		t.texts[c.hash] = c.text(n)
	}
	if t.first == 0 {
		t.first = now
	}
	t.last = now
	t.worst.add(now)
	t.series.add(now, false)
}

// text spells the caller of what was refused.
func (c *charged) text(n *notes) string {
	if c.missing {
		return "(missing, " + n.spell(c.key) + ")"
	}
	return gate.KeyText(c.rule, n.spell(c.key))
}

// topCallers is how many callers a report names for each rule.
const topCallers = 10

// top returns the callers with the most refusals.
func (t *tally) top(n *names) []Caller {
	list := make([]Caller, 0, len(t.texts))
	for hash, text := range t.texts {
		list = append(list, Caller{n.spell(text), t.refused[hash]})
	}
	slices.SortFunc(list, func(a, b Caller) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Key, b.Key))
	})
	return list[:min(len(list), topCallers)]
}

// minute finds the minute with the most refusals. Times come in order.
type minute struct {
	now, count  int64 // the minute at hand, in minutes since the epoch
	start, most int64
}

func (m *minute) add(us int64) {
	if at := us / 60e6; at != m.now {
		m.now, m.count = at, 0
	}
	if m.count++; m.count > m.most {
		m.start, m.most = m.now, m.count
	}
}
