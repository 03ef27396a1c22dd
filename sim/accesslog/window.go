package accesslog

import (
	"cmp"
	"slices"
)

// window puts records in order of time, then file, then line. Servers write
// lines when requests end and several at once, so logs are nearly in order: what
// comes is held until nothing can come before it any more.
//
//	fresh batch → sorted → the run that it continues, or a new one
//	runs, each in order ─ merged ─ what is older than the newest less span → released
//
// At least `least` records are held however old they are, so that a short log is
// put in order whole; and at most `most`, so that memory has a bound when much
// comes within the span. A record that comes after its place has gone is given
// out with the others' time and counted.
//
// A log in order is one run, and its records are copied once. A heap was
// rejected: it pays for every record what is needed for few. So was one sorted
// list: a part of a log that begins anew would be moved into its middle.
type window struct {
	least, most int
	runs        []run
	held        int
	out         []slot
	order       []uint64 // of a fresh batch
	reached     int64    // the time up to which records have been given out
	misplaced   int64
}

const (
	heldLeast = 1 << 14
	heldMost  = 1 << 20
	maxRuns   = 24 // more are merged into one
)

// run is held records in order.
type run struct {
	slots []slot
	gone  int // how many of the first have been released
}

type slot struct {
	at     int64
	place  int64 // file and line
	record *Record
	from   *batch
}

func compareSlots(a, b slot) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Compare(a.place, b.place)
}

func (r *run) rest() []slot { return r.slots[r.gone:] }

// append adds slots that come after all in the run.
func (r *run) append(slots []slot) {
	if r.gone > len(r.slots)/2 { // moving the rest is paid for by what has gone
		n := copy(r.slots, r.rest())
		clear(r.slots[n:])
		r.slots, r.gone = r.slots[:n], 0
	}
	r.slots = append(r.slots, slots...)
}

// add takes a batch.
func (w *window) add(b *batch) {
	if len(b.records) == 0 {
		return
	}
	if len(w.runs) == maxRuns {
		w.runs = append(w.runs[:0], run{slots: slices.Clone(w.take(w.held))})
	}
	fresh := w.out[:0] // what was released from here has been done with
	for _, i := range w.inOrder(b.records) {
		r := &b.records[i]
		fresh = append(fresh, slot{r.At, int64(r.File)<<40 | r.Line, r, b})
	}
	w.out = fresh
	w.held += len(fresh)
	for i := len(w.runs) - 1; i >= 0; i-- {
		r := &w.runs[i]
		if len(r.rest()) == 0 || compareSlots(r.slots[len(r.slots)-1], fresh[0]) <= 0 {
			r.append(fresh)
			return
		}
	}
	w.runs = append(w.runs, run{slots: slices.Clone(fresh)})
}

// inOrder returns the places of a source's records in order of time, then line,
// after none is earlier than what was reached. Time and place are sorted as one
// number: the records themselves, or what stands for them, would be dear to move.
func (w *window) inOrder(records []Record) []uint64 {
	w.order = w.order[:0]
	for i := range records {
		r := &records[i]
		if r.At < w.reached {
			w.misplaced++
			r.At = w.reached
		}
		w.order = append(w.order, uint64(r.At)<<placeBits|uint64(i))
	}
	slices.Sort(w.order)
	for i := range w.order {
		w.order[i] &= 1<<placeBits - 1
	}
	return w.order
}

// placeBits hold a place in a batch; a time in microseconds is below maxStamp and
// fits the others.
const (
	placeBits = 10
	batchSize = 1 << placeBits
)

// ready returns how many of the held may go when nothing before until can come
// any more.
func (w *window) ready(until int64, final bool) int {
	if final {
		return w.held
	}
	if w.held <= w.least {
		return 0
	}
	n := 0
	for i := range w.runs {
		before, _ := slices.BinarySearchFunc(w.runs[i].rest(), until, func(s slot, t int64) int { return cmp.Compare(s.at, t) })
		n += before
	}
	return max(0, min(n, w.held-w.least), w.held-w.most)
}

// release returns the first n of the held, valid until the next add.
func (w *window) release(n int) []slot {
	out := w.take(n)
	w.held -= n
	w.reached = max(w.reached, out[n-1].at)
	return out
}

// take merges the first n of all runs into out.
func (w *window) take(n int) []slot {
	w.out = w.out[:0]
	for len(w.out) < n {
		first, second := -1, -1
		for i := range w.runs {
			r := &w.runs[i]
			switch {
			case len(r.rest()) == 0:
			case first < 0 || compareSlots(r.slots[r.gone], w.runs[first].slots[w.runs[first].gone]) < 0:
				first, second = i, first
			case second < 0 || compareSlots(r.slots[r.gone], w.runs[second].slots[w.runs[second].gone]) < 0:
				second = i
			}
		}
		r := &w.runs[first]
		rest := r.rest()
		rest = rest[:min(len(rest), n-len(w.out))]
		if second >= 0 {
			limit := w.runs[second].slots[w.runs[second].gone]
			k := 1
			for k < len(rest) && compareSlots(rest[k], limit) <= 0 {
				k++
			}
			rest = rest[:k]
		}
		w.out = append(w.out, rest...)
		r.gone += len(rest)
	}
	w.runs = slices.DeleteFunc(w.runs, func(r run) bool { return len(r.rest()) == 0 && len(w.runs) > 1 })
	return w.out
}

// unsplit shortens what was released and not yet given out, so that no second is
// cut in two, and puts the rest back. Of the last second of all more may still
// come.
func (w *window) unsplit(out []slot) []slot {
	n := len(out)
	next := out[n-1].at / secondMicros
	for n > 0 && out[n-1].at/secondMicros == next {
		n--
	}
	if n == 0 || n == len(out) {
		return out
	}
	w.held += len(out) - n
	w.reached = out[n-1].at
	w.runs = append(w.runs, run{slots: slices.Clone(out[n:])})
	return out[:n]
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
