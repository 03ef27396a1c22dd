package accesslog

import (
	"cmp"
	"slices"
)

// window puts records in order of time, then file, then line. Servers write
// lines when requests end and several at once, so logs are nearly in order: what
// comes is held until nothing can come before it any more.
//
//	released │ held, sorted                      │ fresh batch
//	         └ goes when it is older than the newest less span
//
// At least `least` records are held however old they are, so that a short log is
// put in order whole; and at most `most`, so that memory has a bound when much
// comes within the span. A record that comes after its place has gone is given
// out with the others' time and counted.
//
// A batch that continues in order, which is the usual case, is appended; another
// is sorted and merged. A heap was rejected: it pays for every record what is
// needed for few.
type window struct {
	least, most int
	held        []slot
	merged      []slot // room for merging
	reached     int64  // the time up to which records have been given out
	misplaced   int64
}

const (
	heldLeast = 1 << 16
	heldMost  = 1 << 20
)

type slot struct {
	at     int64
	place  int64 // file and line
	record *Record
}

func compareSlots(a, b slot) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Compare(a.place, b.place)
}

// add takes a batch.
func (w *window) add(records []Record) {
	first := len(w.held)
	ordered := true
	for i := range records {
		r := &records[i]
		if r.At < w.reached {
			w.misplaced++
			r.At = w.reached
		}
		s := slot{r.At, int64(r.File)<<40 | r.Line, r}
		ordered = ordered && (len(w.held) == 0 || compareSlots(w.held[len(w.held)-1], s) <= 0)
		w.held = append(w.held, s)
	}
	if ordered {
		return
	}
	fresh := w.held[first:]
	slices.SortFunc(fresh, compareSlots)
	from, _ := slices.BinarySearchFunc(w.held[:first], fresh[0], compareSlots)
	w.merged = append(w.merged[:0], w.held[from:first]...)
	old, out := w.merged, w.held[from:from]
	// What is written is never ahead of what is still to be read: fresh lies
	// behind by as many as are left of old.
	for len(old) > 0 && len(fresh) > 0 {
		if compareSlots(old[0], fresh[0]) <= 0 {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
	}
	copy(w.held[from+len(out):], old)
	clear(w.merged)
}

// ready returns how many of the held may go when nothing before until can come
// any more.
func (w *window) ready(until int64, final bool) int {
	if final {
		return len(w.held)
	}
	n, _ := slices.BinarySearchFunc(w.held, until, func(s slot, t int64) int { return cmp.Compare(s.at, t) })
	return max(0, min(n, len(w.held)-w.least), len(w.held)-w.most)
}

// release appends the first n records to dst.
func (w *window) release(dst []*Record, n int) []*Record {
	for _, s := range w.held[:n] {
		dst = append(dst, s.record)
	}
	w.reached = max(w.reached, w.held[n-1].at)
	rest := copy(w.held, w.held[n:])
	clear(w.held[rest:])
	w.held = w.held[:rest]
	return dst
}

// whole returns the largest number up to n that does not cut a second in two.
func (w *window) whole(n int) int {
	for n > 0 && n < len(w.held) && w.held[n-1].at/secondMicros == w.held[n].at/secondMicros {
		n--
	}
	if n == len(w.held) {
		last := w.held[n-1].at / secondMicros
		for n > 0 && w.held[n-1].at/secondMicros == last {
			n--
		}
	}
	return n
}

// spread gives the records whose stamp tells no more than the second even places
// in it, in the order of their lines.
func spread(records []*Record) {
	for len(records) > 0 {
		second := records[0].At / secondMicros
		n, coarse := 0, int64(0)
		for n < len(records) && records[n].At/secondMicros == second {
			if records[n].Coarse {
				coarse++
			}
			n++
		}
		i := int64(0)
		for _, r := range records[:n] {
			if r.Coarse {
				r.At = second*secondMicros + i*secondMicros/coarse
				i++
			}
		}
		slices.SortStableFunc(records[:n], func(a, b *Record) int { return cmp.Compare(a.At, b.At) })
		records = records[n:]
	}
}
