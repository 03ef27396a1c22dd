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
	callers map[uint64]uint32 // by hash of the key: how many requests were refused
	texts   map[uint64]string // keys of the refused
	first   int64             // the first refusal, in microseconds; 0 for none
	last    int64
	worst   minute
	series  series
	// The admitted request that left the least of its limit, as remaining of limit.
	remaining, limit int64
}

func newTally(r *policy.Rule) *tally {
	t := &tally{rule: r, name: r.Name, callers: map[uint64]uint32{}, texts: map[uint64]string{}, remaining: 1, limit: 1}
	if r.Try != (weir.Limit{}) {
		t.trial = newTally(&policy.Rule{Name: r.Name + " (try)"})
	}
	return t
}

// take counts a request that the rule charges from charge i to end. More than
// one charge is a path with several readings; refused under one is refused.
func (t *tally) take(run *Run, v *gate.Verdict, i, end, step int) {
	t.matched++
	refused := false
	for ; i < end; i += step {
		d := &v.Bill.Each[i]
		hash := run.hashKey(v.Bill.Charges[i].Key)
		switch {
		case !d.Allowed && !refused:
			refused = true
			t.refuse(hash, run.seen, func() string { return gate.KeyText(v.Rules[i], v.Bill.Charges[i].Key) })
			continue
		case d.Allowed && d.Limit > 0 && d.Limit != weir.Unbounded && d.Remaining*t.limit < t.remaining*d.Limit:
			t.remaining, t.limit = d.Remaining, d.Limit
		}
		if _, known := t.callers[hash]; !known {
			t.callers[hash] = 0
		}
	}
}

// refuse counts a refused request of a caller. text spells the caller, and is
// called at its first refusal.
func (t *tally) refuse(hash uint64, now int64, text func() string) {
	t.denied++
	if t.callers[hash]++; t.callers[hash] == 1 {
		t.texts[hash] = strings.Clone(text())
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
		list = append(list, Caller{n.spell(text), int64(t.callers[hash])})
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
