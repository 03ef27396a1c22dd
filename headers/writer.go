package headers

import (
	"time"

	"github.com/weirhq/weir"
)

// writer writes an answer's fields into one buffer, so that all values together
// are one string and one allocation. The buffer is handed from method to method
// rather than kept here, where it could not stay on the stack.
type writer struct {
	bill   *weir.Bill
	shows  []Show
	answer *Answer
	ends   [len(Answer{}.fields)]int
}

func (w *writer) write(f *Format) {
	var room [384]byte
	b := room[:0]
	if binding := w.binding(); binding >= 0 {
		d := &w.bill.Each[binding]
		reset := Seconds(d.ResetAfter)
		if f.families&Triple != 0 {
			b = w.triple(b, &tripleNames, d, reset)
		}
		if f.families&Draft11 != 0 {
			b = w.end(w.policies(b), policyName)
			b = w.end(w.quotas(b), quotaName)
		}
		if f.families&XRateLimit != 0 {
			if f.xReset == Epoch {
				reset = epoch(f.now().Add(d.ResetAfter))
			}
			b = w.triple(b, &xNames, d, reset)
		}
	}
	a := w.answer
	if a.Wait > 0 {
		b = w.end(appendInteger(b, Seconds(a.Wait)), retryName)
	}
	if !w.bill.Allowed {
		b = w.end(append(b, "no-store"...), cacheControl)
		if a.id != "" {
			b = w.end(append(b, a.id...), decisionName)
		}
		w.violated()
	}
	text, start := string(b), 0
	for i := range a.fields[:a.count] {
		a.fields[i].value = text[start:w.ends[i]]
		start = w.ends[i]
	}
}

// end closes the field that was just written to b.
func (w *writer) end(b []byte, name *fieldName) []byte {
	a := w.answer
	a.fields[a.count].name = name
	w.ends[a.count] = len(b)
	a.count++
	return b
}

// epoch returns t in seconds since the Unix epoch, rounded up.
func epoch(t time.Time) int64 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// shown reports whether charge i may appear.
func (w *writer) shown(i int) bool {
	b := w.bill
	return b.Charges[i].Trial == 0 && b.Each[i].Limit != weir.Unbounded && (i >= len(w.shows) || !w.shows[i].Hidden)
}

// charges returns how many charges were decided: none, where a door refused the
// bill without asking.
func (w *writer) charges() int { return min(len(w.bill.Charges), len(w.bill.Each)) }

func (w *writer) name(i int) string {
	name := ""
	if i < len(w.shows) {
		name = w.shows[i].Name
	}
	if name == "" {
		name = w.bill.Charges[i].Limit.Name()
	}
	if name == "" {
		return "default"
	}
	return Slug(name)
}

// binding returns the charge that binds among those that may be shown, or -1:
// in a denied bill the longest retry of those that refused, else the least
// remaining. If only hidden limits refused, the shown ones appear as they are,
// and nothing tells which limit it was.
func (w *writer) binding() int {
	best := -1
	for i := range w.charges() {
		if w.shown(i) && (best < 0 || tighter(&w.bill.Each[i], &w.bill.Each[best])) {
			best = i
		}
	}
	return best
}

// tighter reports whether d is told rather than e, which stands before it.
func tighter(d, e *weir.Decision) bool {
	switch {
	case d.Allowed != e.Allowed:
		return e.Allowed
	case d.Allowed:
		return d.Remaining < e.Remaining
	case e.RetryAfter == weir.Never:
		return false
	}
	return d.RetryAfter == weir.Never || d.RetryAfter > e.RetryAfter
}

func (w *writer) triple(b []byte, names *[3]*fieldName, d *weir.Decision, reset int64) []byte {
	for i, n := range [3]int64{d.Limit, d.Remaining, reset} {
		b = w.end(appendInteger(b, n), names[i])
	}
	return b
}

// policies writes RateLimit-Policy. It depends on the limits alone, so that
// HTTP/2 compresses it away.
func (w *writer) policies(b []byte) []byte {
	members := 0
	for i := 0; i < w.charges() && members < mostMembers; i++ {
		if !w.shown(i) {
			continue
		}
		refill := w.bill.Charges[i].Limit.Refill()
		b = appendMember(b, members == 0, w.name(i))
		b = appendParam(b, 'q', w.bill.Each[i].Limit)
		b = appendParam(b, 'w', max(1, Seconds(refill)))
		members++
	}
	return b
}

// quotas writes RateLimit, members as in policies.
func (w *writer) quotas(b []byte) []byte {
	members := 0
	for i := 0; i < w.charges() && members < mostMembers; i++ {
		if !w.shown(i) {
			continue
		}
		d := &w.bill.Each[i]
		b = appendMember(b, members == 0, w.name(i))
		b = appendParam(b, 'r', d.Remaining)
		if t, ok := w.window(d); ok {
			b = appendParam(b, 't', t)
		}
		members++
	}
	return b
}

// window returns t of a member: the bill's wait for a limit that refused, and
// none if no wait will do; else the time to reset. Beside a wait, t is never
// past it: Retry-After must not point earlier than any t.
func (w *writer) window(d *weir.Decision) (seconds int64, ok bool) {
	wait := Seconds(w.answer.Wait)
	if !d.Allowed {
		return wait, wait > 0
	}
	reset := Seconds(d.ResetAfter)
	if wait > 0 {
		reset = min(reset, wait)
	}
	return reset, true
}

// violated notes the names of the limits that refused.
func (w *writer) violated() {
	for i := range w.charges() {
		if w.shown(i) && !w.bill.Each[i].Allowed {
			w.answer.violated = append(w.answer.violated, w.name(i))
		}
	}
}
