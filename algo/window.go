package algo

// Fixed and sliding windows count in periods: multiples of Period since the
// Unix epoch, or calendar periods in a time zone for fixed windows. The sliding
// window is the weighted two-window counter:
//
//	      previous period          this period
//	 ├───────────────────────┼───────────────────────┤
//	           ├─────────────┼───── e ────┤            a span of one Period
//	           prev*(P-e)/P  +    cur     <= N          (kept as *P: no division)

// Window is the state of a window. The zero Window was never charged.
type Window struct {
	Start int64 // start of the period that Cur counts
	Prev  int64 // units of the period before (sliding windows)
	Cur   int64 // units of this period
}

// AdvanceWindow brings w to the clock's reading now under q.
func (q *Quota) AdvanceWindow(w *Window, now int64) View {
	v := View{Now: now, At: now}
	used := w.Cur > 0 || w.Prev > 0
	if used && w.Start > now {
		if w.Start-now <= MaxSkew {
			v.At = w.Start
		} else {
			v.Stepped = true
		}
	}
	v.Start, v.End = q.around(v.At)
	switch {
	case !used:
	case v.Stepped, w.Start == v.Start:
		v.Prev, v.Cur = w.Prev, w.Cur
	case q.Kind == SlidingWindow && w.Start+q.Period == v.Start:
		v.Prev = w.Cur
	}
	return v
}

// FitsWindow reports whether cost fits at v.
func (q *Quota) FitsWindow(v *View, cost int64) bool {
	if q.N == 0 || cost > q.N-v.Cur {
		return false
	}
	if v.Prev == 0 {
		return true
	}
	room := multiply(q.N-v.Cur-cost, q.Period)
	return !room.less(multiply(v.Prev, v.End-v.At))
}

// ChargeWindow debits v and returns the state to keep.
func (q *Quota) ChargeWindow(v *View, cost int64) Window {
	v.Cur += cost
	return v.Window()
}

// Window returns the state that v stands for.
func (v *View) Window() Window { return Window{v.Start, v.Prev, v.Cur} }

func (q *Quota) slidingRemaining(v *View) int64 {
	return q.N - v.Cur - multiply(v.Prev, v.End-v.At).ceil(q.Period)
}

// slidingRetry returns the first microsecond at which cost fits: in this period
// when the one before has faded enough, else in the next, when this one has.
func (q *Quota) slidingRetry(v *View, cost int64) int64 {
	if room := q.N - v.Cur - cost; room >= 0 && v.Prev > 0 {
		return v.End - multiply(room, q.Period).floor(v.Prev)
	}
	if v.Cur == 0 { // a store that denies what fits: its mistake must not be a crash here
		return v.End
	}
	weight := multiply(q.N-cost, q.Period).floor(v.Cur) // v.Cur > N-cost >= 0
	return max(v.End, v.End+q.Period-weight)
}

// RefundWindow gives back up to units that were charged in the period starting
// at period, and returns the state to keep and the units given back.
func (q *Quota) RefundWindow(w Window, now, units, period int64) (Window, int64) {
	v := q.AdvanceWindow(&w, now)
	if v.Stepped || w.Start != period || v.Start != period {
		return w, 0
	}
	units = min(units, w.Cur)
	w.Cur -= units
	return w, units
}
