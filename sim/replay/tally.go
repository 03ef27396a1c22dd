package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhq/weir/policy"
)

// tally counts what one rule refused. Its memory grows with the callers, not with the
// requests.
type tally struct {
	rule    *policy.Rule
	name    string
	denied  int64
	refused map[uint64]int64  // requests, by hash of the key
	texts   map[uint64]string // keys of the refused
	first   int64             // the first refusal, in microseconds; 0 for none
	last    int64
	worst   minute
	series  series

	request int64 // the last that was refused, by its number
}

func newTally(r *policy.Rule) *tally {
	return &tally{rule: r, name: r.Name, refused: map[uint64]int64{}, texts: map[uint64]string{}}
}

// refuse counts a refused request of a caller.
func (t *tally) refuse(run *Run, c *refused) {
	now := run.seen
	t.denied++
	if t.refused[c.hash]++; t.refused[c.hash] == 1 {
		t.texts[c.hash] = run.spell(c)
	} else {
		run.texts = run.texts[c.key:]
	}
	if t.first == 0 {
		t.first = now
	}
	t.last = now
	t.worst.add(now)
	t.series.add(now, false)
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
