package redisstore

import "github.com/weirhq/weir/algo"

// flight is one script call: the requests that fly, their bills in the order in
// which they are encoded, and buffers that a sender reuses.
type flight struct {
	requests []*request
	runs     map[string]int // a single bill's arguments → its run
	order    [][]ref        // runs, in order of first appearance
	bills    []ref          // the other bills
	keys     []string
	index    map[string]int // stored key → position in keys
	which    []int          // position of each balance's key
	body     []byte
	repeats  bool
}

// ref is a part of a request.
type ref struct{ request, part int }

func newFlight() *flight {
	return &flight{runs: make(map[string]int), index: make(map[string]int)}
}

func (f *flight) reset(requests []*request) {
	f.requests = requests
	clear(f.runs)
	for i := range f.order {
		f.order[i] = f.order[i][:0]
	}
	f.bills, f.which, f.body, f.repeats = f.bills[:0], f.which[:0], f.body[:0], false
	clear(f.keys)
	f.keys = f.keys[:0]
	clear(f.index)
}

func (f *flight) part(r ref) (*request, *part) {
	q := f.requests[r.request]
	return q, &q.parts[r.part]
}

// encode lays the requests out as lua/5_take.lua reads them. Bills that ask the
// same of one balance each become a run: their arguments travel and are parsed
// once.
func (f *flight) encode(notAfter int64) (keys []string, body, which string) {
	runs := 0
	for i, q := range f.requests {
		for j := range q.parts {
			p := &q.parts[j]
			if !p.single {
				f.bills = append(f.bills, ref{i, j})
				continue
			}
			shape := q.body[p.from:p.to]
			at, ok := f.runs[string(shape)]
			if !ok {
				at = runs
				f.runs[string(shape)] = at
				if runs++; runs > len(f.order) {
					f.order = append(f.order, nil)
				}
			}
			f.order[at] = append(f.order[at], ref{i, j})
		}
	}
	f.body = appendArray(f.body, 0) // the count is filled in below
	ints := 1
	f.body = appendInt(f.body, notAfter)
	for _, run := range f.order[:runs] {
		q, p := f.part(run[0])
		f.body = append(f.body, q.body[p.from:p.to]...)
		f.body = appendInt(f.body, int64(len(run)))
		ints += p.ints + 1
		for _, r := range run {
			f.use(r)
		}
	}
	f.body = appendInt(f.body, 0)
	for _, r := range f.bills {
		q, p := f.part(r)
		f.body = append(f.body, q.body[p.from:p.to]...)
		ints += p.ints
		f.use(r)
	}
	f.body = appendInt(f.body, 0)
	appendArray(f.body[:0], ints+2)
	if f.repeats {
		w := appendArray(nil, len(f.which))
		for _, at := range f.which {
			w = appendInt(w, int64(at))
		}
		which = string(w)
	}
	return f.keys, string(f.body), which
}

// use adds the keys of a part, each stored key once.
func (f *flight) use(r ref) {
	q, p := f.part(r)
	for _, key := range q.keys[p.key : p.key+p.count] {
		at, ok := f.index[key]
		if ok {
			f.repeats = true
		} else {
			f.keys = append(f.keys, key)
			at = len(f.keys)
			f.index[key] = at
		}
		f.which = append(f.which, at)
	}
}

// decode reads the reply into the requests. It returns the store's clock, and
// the word of a flight that was refused whole or whose writes were.
func (f *flight) decode(reply string) (now int64, refused string, err error) {
	in := reader{rest: reply}
	in.array()
	now = in.int()
	_, refused = in.value()
	if refused == "STALE" {
		return now, refused, in.err
	}
	for _, run := range f.order {
		for _, r := range run {
			q, p := f.part(r)
			flags, word := in.value()
			if p.status = word; word == "" {
				q.outcomes[p.first].read(&in, now, flags)
			}
		}
	}
	for _, r := range f.bills {
		q, p := f.part(r)
		if _, p.status = in.value(); p.status != "" {
			continue
		}
		for k := range p.count {
			q.outcomes[p.first+k].read(&in, now, in.int())
		}
	}
	if in.err == nil && in.rest != "" {
		in.err = errReply
	}
	if refused != "" {
		f.fail(refused)
	}
	return now, refused, in.err
}

// fail gives every bill that would have been charged the error of the first
// write: nothing was written. Denials and peeks stand.
func (f *flight) fail(word string) {
	for _, q := range f.requests {
		for i := range q.parts {
			p := &q.parts[i]
			for _, o := range q.outcomes[p.first : p.first+p.count] {
				if p.status == "" && o.flags&flagDebited != 0 {
					p.status = word
				}
			}
		}
	}
}

// read reads one balance's view.
func (o *outcome) read(in *reader, now, flags int64) {
	*o = outcome{kind: o.kind, now: now, at: now, flags: flags}
	if flags&flagAt != 0 {
		o.at = in.int()
	}
	switch {
	case o.kind.Bucket():
		o.a, o.b = in.int(), in.int()
		if flags&flagForget != 0 {
			o.forget = in.int()
		}
	case o.kind == algo.SlidingLog:
		o.a, o.b, o.c = in.int(), in.int(), in.int()
	default:
		o.a, o.b, o.c, o.d = in.int(), in.int(), in.int(), in.int()
	}
	if flags&flagBlocked != 0 {
		o.blocked = in.int()
	}
}
