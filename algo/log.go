package algo

import "sort"

// A sliding log remembers each charge for one period. It is a list of entries
// in order of time, each with the total of all units up to and including it, so
// that the units in any span are one subtraction and every question ("what is
// live", "when will enough have left") one binary search:
//
//	time   10:00:00  10:00:02  10:00:02.5  10:00:07
//	total        3         4           9        10      used since 10:00:02 = 10-3

// Entry is one charge of a log, or several at the same microsecond.
type Entry struct {
	Time  int64 // microseconds since the epoch
	Total int64 // running total, this entry included
}

// Log is the state of a sliding log. The zero Log was never charged. It is not
// safe for concurrent use.
type Log struct {
	room    []Entry // dead entries, then the entries
	entries []Entry // the tail of room that may still count
	base    int64   // running total before entries[0]
}

// Len returns the number of entries kept.
func (l *Log) Len() int { return len(l.entries) }

// Newest returns the time of the newest entry; the log must not be empty.
func (l *Log) Newest() int64 { return l.entries[len(l.entries)-1].Time }

// Cap returns the number of entries the log has room for, dead ones included.
func (l *Log) Cap() int { return cap(l.room) }

// before returns the running total before entry i.
func (l *Log) before(i int) int64 {
	if i == 0 {
		return l.base
	}
	return l.entries[i-1].Total
}

// live returns the index of the first entry still within period at t.
func (l *Log) live(t, period int64) int {
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].Time > t-period })
}

// AdvanceLog brings l to the clock's reading now under q. It changes nothing.
// cost is needed here because when it would fit is a question to the entries.
func (q *Quota) AdvanceLog(l *Log, now, cost int64) View {
	v := View{Now: now, At: now}
	if len(l.entries) == 0 {
		return v
	}
	v.Newest = l.entries[len(l.entries)-1].Time
	var shift int64
	if ahead := v.Newest - now; ahead > 0 {
		if ahead <= MaxSkew {
			v.At = v.Newest
		} else {
			shift, v.Newest, v.Stepped = ahead, now, true
		}
	}
	first := l.live(v.At+shift, q.Period)
	v.Used = l.before(len(l.entries)) - l.before(first)
	if excess := v.Used + cost - q.N; excess > 0 && !q.TooLarge(cost) && q.N > 0 {
		goal := l.before(first) + excess
		i := first + sort.Search(len(l.entries)-first, func(i int) bool { return l.entries[first+i].Total >= goal })
		v.FreeAt = l.entries[i].Time - shift + q.Period
	}
	if v.Used == 0 {
		v.Stepped = false
	}
	return v
}

// FitsLog reports whether cost fits at v.
func (q *Quota) FitsLog(v *View, cost int64) bool { return q.N > 0 && v.Used+cost <= q.N }

// ChargeLog debits l and v. Entries that have left are dropped.
func (q *Quota) ChargeLog(l *Log, v *View, cost int64) {
	if v.Stepped {
		StepLog(l, v.Now)
	}
	l.drop(l.live(v.At, q.Period))
	v.Used += cost
	v.Newest = v.At
	total := l.before(len(l.entries)) + cost
	if n := len(l.entries); n > 0 && l.entries[n-1].Time == v.At {
		l.entries[n-1].Total = total
		return
	}
	l.append(Entry{v.At, total})
}

// append adds e. Where the room is full, the dead entries before the live ones
// are reused if they are half of it, so that a charge costs O(1) on average and
// the room stays within twice of what is live.
func (l *Log) append(e Entry) {
	if len(l.room) == cap(l.room) && 2*len(l.entries) <= len(l.room) {
		l.room = l.room[:copy(l.room, l.entries)]
	}
	live := len(l.entries)
	l.room = append(l.room, e)
	l.entries = l.room[len(l.room)-live-1:]
}

// drop forgets the first n entries.
func (l *Log) drop(n int) {
	if n == 0 {
		return
	}
	l.base = l.entries[n-1].Total
	l.entries = l.entries[n:]
}

// StepLog moves every entry so that the newest stands at now.
func StepLog(l *Log, now int64) {
	n := len(l.entries)
	if n == 0 {
		return
	}
	ahead := l.entries[n-1].Time - now
	for i := range l.entries {
		l.entries[i].Time -= ahead
	}
}

// RefundLog takes up to units of the charge at time at out of l and returns how
// many it took.
func (q *Quota) RefundLog(l *Log, now, units, at int64) int64 {
	v := q.AdvanceLog(l, now, 0)
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].Time >= at })
	if v.Stepped || i == len(l.entries) || l.entries[i].Time != at || at <= v.At-q.Period {
		return 0
	}
	held := l.entries[i].Total - l.before(i)
	units = min(units, held)
	for j := i; j < len(l.entries); j++ {
		l.entries[j].Total -= units
	}
	if units == held {
		copy(l.entries[i:], l.entries[i+1:])
		l.entries = l.entries[:len(l.entries)-1]
		l.room = l.room[:len(l.room)-1]
	}
	return units
}
