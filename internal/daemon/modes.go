package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weirhq/weir/directory"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/redisstore"
)

// Switching modes is for emergencies: a rule that refuses whom it should not is
// put in shadow on all instances at once, or a rule on trial is enforced, for a
// stated time. What is switched is kept in Redis and read four times a second.
//
// A switch must work when Redis does not: then, and where there is none, it holds
// for this instance alone, and the answer says so. A Redis that is there and
// refuses the write is another matter: the instances would differ while all of
// them can be reached, so nothing is switched and the refusal is the answer. Each
// switch ends by itself; one that cannot be read any more ends at its time all
// the same, because the gate has the time too.

const readModes = 250 * time.Millisecond

// modes are the switches as this instance knows them. It is safe for concurrent
// use.
type modes struct {
	gate      *gate.Gate
	directory *directory.Directory // nil without Redis
	log       *slog.Logger
	stop      context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex
	asked  int    // readings begun
	taken  int    // which of them shared is of
	shared []held // as last read
	own    []held // of this instance alone
	known  []held // both, as last told

	standing *held // stands for every rule that no switch is for by name; or nil
}

// held is a switch with its end on this instance's clock.
type held struct {
	gate.ModeSwitch
	by string
}

// newModes returns the modes of a daemon that has just begun: those of the policy,
// or, of one that is to decide nothing, shadow for every rule.
func newModes(g *gate.Gate, d *directory.Directory, shadow bool, log *slog.Logger) *modes {
	ctx, cancel := context.WithCancel(context.Background())
	m := &modes{gate: g, directory: d, log: log, stop: cancel}
	if shadow {
		g.SetTrial(true)
		m.standing = &held{gate.ModeSwitch{Mode: policy.Shadow, Until: time.Now().AddDate(100, 0, 0)}, "--shadow"}
		m.apply() // before the first decision
	}
	m.work.Go(func() { m.keepReading(ctx) })
	return m
}

// close ends the reading.
func (m *modes) close() {
	m.stop()
	m.work.Wait()
}

// Switch implements admin.Modes.
func (m *modes) Switch(ctx context.Context, rule, mode string, d time.Duration, by, from string) (until time.Time, everywhere bool, err error) {
	s := directory.Switch{Rule: rule, Left: d, By: by}
	s.Mode, _ = policy.ModeNamed(mode) // the door has checked it
	until = time.Now().Add(s.Left)
	if m.directory != nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err = m.directory.SetSwitch(ctx, s); err == nil {
			m.read(ctx)
		}
	}
	if refused := redisstore.Refused(err); refused != nil {
		m.log.Warn("asked to switch the mode of rules, and the store refused: nothing is switched", "rule", ruleWord(s.Rule),
			"mode", s.Mode.String(), "for", s.Left.String(), "by", s.By, "from", from, "error", refused.Error())
		return until, false, refused
	}
	everywhere = m.directory != nil && err == nil
	m.mu.Lock()
	m.own = slices.DeleteFunc(m.own, func(h held) bool { return h.Rule == s.Rule })
	if !everywhere && s.Left > 0 {
		m.own = append(m.own, held{gate.ModeSwitch{Rule: s.Rule, Mode: s.Mode, Until: until}, s.By})
	}
	if !everywhere {
		m.shared = slices.DeleteFunc(m.shared, func(h held) bool { return h.Rule == s.Rule })
	}
	m.mu.Unlock()
	m.log.Warn("asked to switch the mode of rules", "rule", ruleWord(s.Rule), "mode", s.Mode.String(), "for", s.Left.String(),
		"by", s.By, "from", from, "everywhere", everywhere)
	if m.standing != nil && s.Rule == "" && s.Left > 0 {
		m.log.Warn("a switch of every rule does not hold here: this daemon only tries its policy, and enforces by name alone", "by_flag", m.standing.by)
	}
	m.apply()
	return until, everywhere, nil
}

func (m *modes) keepReading(ctx context.Context) {
	tick := time.NewTicker(readModes)
	defer tick.Stop()
	for {
		if m.directory != nil {
			m.read(ctx)
		}
		m.apply()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read takes over what Redis holds. While it is away, what was read last stands
// until it ends.
func (m *modes) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readModes)
	defer cancel()
	began, number := time.Now(), m.ask()
	list, err := m.directory.Switches(ctx)
	if err != nil {
		return
	}
	shared := make([]held, len(list))
	for i, s := range list {
		shared[i] = held{gate.ModeSwitch{Rule: s.Rule, Mode: s.Mode, Until: began.Add(s.Left)}, s.By}
	}
	m.take(number, shared)
}

// ask numbers a reading that begins.
func (m *modes) ask() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	return m.asked
}

// take takes over what a reading found, unless one that began later was done sooner:
// it may have begun after a switch that this one does not know of.
func (m *modes) take(number int, shared []held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number > m.taken {
		m.taken, m.shared = number, shared
	}
}

// apply puts what holds now in force and tells of what has changed. A switch of
// this instance alone stands over a shared one: it was made because that one
// could not be. What stands for a daemon's life stands over switches of every rule,
// other instances' too: a daemon on trial refuses nobody but by name.
func (m *modes) apply() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	over := func(h held) bool { return !now.Before(h.Until) }
	m.own, m.shared = slices.DeleteFunc(m.own, over), slices.DeleteFunc(m.shared, over)
	list := slices.Clone(m.own)
	for _, h := range m.shared {
		if !slices.ContainsFunc(list, func(o held) bool { return o.Rule == h.Rule }) {
			list = append(list, h)
		}
	}
	if m.standing != nil {
		list = append(slices.DeleteFunc(list, func(h held) bool { return h.Rule == "" }), *m.standing)
	}
	slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.Rule, b.Rule) })
	switches := make([]gate.ModeSwitch, len(list))
	for i, h := range list {
		switches[i] = h.ModeSwitch
	}
	m.gate.SetModes(switches)
	for _, h := range list {
		if !slices.ContainsFunc(m.known, h.is) {
			m.log.Warn("the mode of rules is switched", "rule", ruleWord(h.Rule), "mode", h.Mode.String(), "by", h.by,
				"until", h.Until.UTC().Format(time.RFC3339))
		}
	}
	for _, h := range m.known {
		if !slices.ContainsFunc(list, func(o held) bool { return o.Rule == h.Rule }) {
			m.log.Warn("a switch of modes has ended: the policy's mode holds again", "rule", ruleWord(h.Rule))
		}
	}
	m.known = list
}

// is reports whether two readings are of one switch: its end is reckoned anew at
// each.
func (h held) is(o held) bool {
	return h.Rule == o.Rule && h.Mode == o.Mode && h.by == o.by && h.Until.Sub(o.Until).Abs() < time.Second
}

func ruleWord(rule string) string {
	if rule == "" {
		return "every rule"
	}
	return rule
}
