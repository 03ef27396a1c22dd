package faults

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
)

// figures are what was measured of the checks between two moments.
type figures struct {
	checks   int
	p999     time.Duration
	longest  time.Duration
	noise    time.Duration // p99.9 of the control's lateness
	noisiest time.Duration
	kinds    map[string]int
	unknown  int
}

func (l *load) figures(from, to time.Time) (f figures) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.kinds = make(map[string]int)
	var took, late []time.Duration
	for _, c := range l.checks {
		if c.ended.Before(from) || c.began.After(to) {
			continue
		}
		took = append(took, c.ended.Sub(c.began))
		if c.kind != "" {
			f.kinds[c.kind]++
		}
		if c.unknown {
			f.unknown++
		}
	}
	for _, s := range l.late {
		if end := s.began.Add(l.deadline + s.late); !end.Before(from) && !s.began.After(to) {
			late = append(late, s.late)
		}
	}
	f.checks = len(took)
	f.p999, f.longest = tail(took)
	f.noise, f.noisiest = tail(late)
	return f
}

// tail returns the 99.9th of a hundred, and the longest.
func tail(d []time.Duration) (p999, longest time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[len(d)*999/1000], d[len(d)-1]
}

func (f *figures) seen() string {
	var kinds []string
	for k, n := range f.kinds {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, n))
	}
	sort.Strings(kinds)
	return strings.Join(kinds, ", ")
}

// recovered returns how long after pong the last of the groups of keys was
// decided by redis for the first time, and false if one was not yet.
func (l *load) recovered(pong time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := make(map[int]time.Time)
	for i := len(l.checks) - 1; i >= 0 && l.checks[i].ended.After(pong.Add(-time.Second)); i-- {
		if c := l.checks[i]; c.kind == "" && c.ended.After(pong) {
			if at, ok := first[c.group]; !ok || c.ended.Before(at) {
				first[c.group] = c.ended
			}
		}
	}
	var last time.Duration
	for _, at := range first {
		last = max(last, at.Sub(pong))
	}
	return last, len(first) == len(classes)*places
}

// settle compares what callers were told with the balances in the store, and
// returns what does not agree.
func (l *load) settle(t *testing.T, lost loss) (problems []string) {
	t.Helper()
	for c, answer := range classes {
		for _, a := range l.accounts(c) {
			problems = append(problems, l.settleAccount(t, lost, answer, a)...)
		}
	}
	var open int64
	for _, a := range l.accounts(1) {
		open += a.failedOpen.Load()
	}
	if open < l.observed.Load() { // a bill of several charges is observed once
		problems = append(problems, fmt.Sprintf("failed_open was counted %d times, and answered %d times", l.observed.Load(), open))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for problem, n := range l.wrong {
		problems = append(problems, fmt.Sprintf("%d times: %s", n, problem))
	}
	return problems
}

func (l *load) settleAccount(t *testing.T, lost loss, answer weir.Failure, a *account) (problems []string) {
	t.Helper()
	wrong := func(format string, args ...any) {
		problems = append(problems, answer.String()+"/"+a.charge.Key+": "+fmt.Sprintf(format, args...))
	}
	var d weir.Decision
	await(t, "redis tells a balance", func() bool {
		var err error
		d, err = l.limiter.Peek(t.Context(), a.charge)
		return err == nil && d.Source == "redis"
	})
	balance := a.most - d.Remaining
	// What was admitted before the contents were lost is owed by nobody; of what
	// was under way then, nothing is known.
	var least, most int64
	for g := range a.begun {
		if lost == nothing || g == 2 {
			least += a.begun[g].Load()
		}
		if lost != everything || g > 0 {
			most += a.ended[g].Load()
		}
	}
	most += a.debts.Load()
	if balance < least || balance > most {
		wrong("charged %d times; admitted %d, and %d at most are debts or of unknown outcome", balance, least, most-least)
	}
	bound := map[weir.Failure]int64{weir.Closed: 0, weir.Open: a.most, weir.Local: a.most, weir.Share: max(1, a.most/instances)}[answer]
	if n := a.local.Load(); n > bound {
		wrong("%d admitted locally, over the bound of %d", n, bound)
	}
	if n := a.failedOpen.Load(); n > 0 && answer != weir.Open {
		wrong("%d admitted unchecked", n)
	}
	for g := range a.begun {
		if lost != nothing && g == 1 {
			continue // of the old contents and of the new
		}
		if n := a.begun[g].Load(); n > a.most {
			wrong("the store admitted %d of %d", n, a.most)
		}
	}
	return problems
}
