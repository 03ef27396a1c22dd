package regional

import (
	"context"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/regions"
	"github.com/weirhq/weir/sim"
)

// run simulates one scope, tick by tick: what arrives, then who sends.
func run(ctx context.Context, o Options, scope policy.Scope) (Row, error) {
	clock := sim.NewClock(o.Limit.Period())
	began := clock.Now()
	now := func() time.Duration { return time.Duration(clock.Now()-began)*time.Microsecond + 1 }
	sites, err := open(o, scope, clock, now)
	defer closeAll(sites)
	if err != nil {
		return Row{}, err
	}
	w := &world{o: o, sites: sites, byName: map[string]*site{}, share: scope == policy.ScopeShare}
	for _, s := range sites {
		w.byName[s.name] = s
	}
	row := Row{Scope: scope.String(), Bound: o.bound(scope)}
	// Shares are agreed upon before there is traffic, as at any start.
	warm := time.Duration(0)
	if w.share {
		warm = 5 * time.Second
	}
	beyond := level{limit: o.Limit}
	last, known := warm, time.Duration(-1)
	w.cutFrom, w.cutTo = warm+(o.Length-o.Partition)/2, warm+(o.Length+o.Partition)/2
	for at := time.Duration(0); ; at += tick {
		if ctx.Err() != nil {
			return row, ctx.Err()
		}
		clock.Set(began + at.Microseconds())
		beyond.at(at)
		if at >= warm && at < warm+o.Length {
			admitted, err := w.arrive(ctx)
			if err != nil {
				return row, err
			}
			if admitted > 0 {
				row.Admitted += admitted
				last = at
				beyond.add(admitted)
			}
			if (at-warm)%Step == 0 {
				row.Beyond = append(row.Beyond, beyond.now())
			}
		}
		if err := w.exchange(ctx, at); err != nil {
			return row, err
		}
		switch {
		case !w.quiet():
			known = -1
		case known < 0:
			known = at
		}
		if at >= warm+o.Length && known >= last {
			row.ConvergedMS = (known - last).Milliseconds()
			break
		}
		if at > warm+o.Length+limit {
			row.ConvergedMS = -1
			break
		}
	}
	if scope != policy.ScopeGlobal {
		row.ConvergedMS = 0 // there is nothing to know
	}
	row.Overshoot = max(0, beyond.most)
	return row, nil
}

// level tells how much of what was admitted lies beyond the limit: what is in a
// bucket that drains at its rate and that every admission fills, beyond its
// capacity. The most that it ever tells is the most over any span of time.
type level struct {
	limit weir.Limit
	units float64
	since time.Duration
	most  int64
}

func (l *level) at(t time.Duration) {
	drained := float64(l.limit.Units()) * float64(t-l.since) / float64(l.limit.Period())
	l.units, l.since = max(0, l.units-drained), t
}

func (l *level) add(units int64) {
	l.units += float64(units)
	l.most = max(l.most, l.now())
}

func (l *level) now() int64 { return int64(l.units+0.000001) - l.limit.Most() }

// world is the regions and what is on its way between them.
type world struct {
	o              Options
	sites          []*site
	byName         map[string]*site
	share          bool
	cutFrom, cutTo time.Duration
	way            []message
}

// message is a letter, what a region says of its shares, or an acknowledgement.
type message struct {
	due      time.Duration
	from, to *site
	letter   *regions.Letter
	said     string
	back     bool // an acknowledgement, or the news that none comes
	lost     bool
}

// arrive lets every region be asked for what is due in a tick, in turns.
func (w *world) arrive(ctx context.Context) (admitted int64, err error) {
	rate := 1.5 * float64(w.o.Limit.Units()) * float64(tick) / float64(w.o.Limit.Period())
	for _, s := range w.sites {
		for s.due += rate; s.due >= 1; s.due-- {
			charge := w.o.Limit.Charge(key)
			charge.Space = space
			bill := weir.Bill{Charges: []weir.Charge{charge}}
			if err := s.limiter.Decide(ctx, &bill); err != nil {
				return admitted, err
			}
			if bill.Allowed {
				admitted++
			}
		}
	}
	return admitted, nil
}

func (w *world) parted(at time.Duration) bool { return at >= w.cutFrom && at < w.cutTo }

// exchange delivers what is due and sends what there is to say.
func (w *world) exchange(ctx context.Context, at time.Duration) error {
	way := w.way
	w.way = nil
	for _, m := range way {
		switch {
		case m.due > at:
			w.way = append(w.way, m)
		case m.back:
			m.from.exchange.Done(m.letter, !m.lost)
			if !m.lost {
				w.tell(m.from, m.to, at)
			}
		case w.parted(at):
			w.lose(m, at)
		case m.letter == nil:
			m.to.said[m.from.name], m.to.saidAt[m.from.name] = m.said, at
		case w.o.deaf:
			m.back, m.due = true, at+w.o.trip()
			w.way = append(w.way, m)
		default:
			if err := m.to.exchange.Hear(ctx, m.from.name, m.letter.Taken); err != nil {
				return err
			}
			m.back, m.due = true, at+w.o.trip()
			w.way = append(w.way, m)
		}
	}
	for i, s := range w.sites {
		if (at+time.Duration(i)*w.o.Interval/time.Duration(len(w.sites)))%w.o.Interval/tick == 0 {
			if err := s.exchange.Collect(ctx); err != nil {
				return err
			}
			for _, to := range w.sites {
				if to != s {
					w.tell(s, to, at)
				}
			}
		}
		if w.share && at%time.Second == 0 {
			if err := w.shares(s, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell sends a region what is due to it.
func (w *world) tell(from, to *site, at time.Duration) {
	for l := from.exchange.Letter(to.name); l != nil; l = from.exchange.Letter(to.name) {
		w.send(message{from: from, to: to, letter: l}, at)
	}
}

func (w *world) send(m message, at time.Duration) {
	if m.due = at + w.o.trip(); w.parted(at) {
		w.lose(m, at)
		return
	}
	w.way = append(w.way, m)
}

// lose tells the sender of a letter that it was not acknowledged, after as long as
// it would have taken.
func (w *world) lose(m message, at time.Duration) {
	if m.letter != nil {
		m.back, m.lost, m.due = true, true, at+w.o.trip()
		w.way = append(w.way, m)
	}
}

// shares is the beat of a region's share keeper.
func (w *world) shares(s *site, at time.Duration) error {
	if err := s.keeper.Hold(s.record, at); err != nil {
		return err
	}
	for space, units := range s.keeper.Asked() {
		s.asked[space] += units
	}
	heard := map[string]string{}
	for _, other := range w.sites {
		if said := s.said[other.name]; other != s && at-s.saidAt[other.name] < 4*time.Second {
			heard[other.name] = said
		}
	}
	next, say, err := s.keeper.Step(s.record, heard, s.asked)
	if err != nil {
		return err
	}
	s.record = next
	for _, to := range w.sites {
		if to != s {
			w.send(message{from: s, to: to, said: say}, at)
		}
	}
	return s.keeper.Hold(s.record, at)
}

// quiet reports whether every region knows of everything.
func (w *world) quiet() bool {
	for _, s := range w.sites {
		if st := s.exchange.Stats(); st.Owed > 0 || st.Pending > 0 {
			return false
		}
	}
	return true
}
