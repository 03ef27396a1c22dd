package redisstore

import "github.com/weirhq/weir/algo"

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
	for i := range f.runs {
		for j := range f.runs[i].asks {
			f.decodeAsk(&in, now, &f.runs[i].asks[j])
		}
	}
	for _, r := range f.bills {
		q, p := f.part(r)
		if _, p.status = in.value(); p.status != "" {
			continue
		}
		if q.seats == 1 {
			for k := range p.count {
				q.outcomes[p.first+k].read(&in, now, in.int())
			}
			continue
		}
		// The last of its seats says how things stand; those before, how many were debited.
		o := outcome{kind: q.outcomes[p.first].kind, left: q.outcomes[p.first].left}
		o.read(&in, now, in.int())
		if o.flags&flagDebited != 0 {
			o.left++
		} else if o.left > 0 {
			o.flags |= flagFits | flagDebited
		}
		q.outcomes[p.first] = o
	}
	if in.err == nil && in.rest != "" {
		in.err = errReply
	}
	if refused != "" {
		f.fail(refused)
	}
	return now, refused, in.err
}

// decodeAsk gives each bill of an ask its own outcome.
func (f *flight) decodeAsk(in *reader, now int64, a *ask) {
	q, p := f.part(a.first)
	first, word := in.value() // the number debited, or the flags
	if a.bills == 1 {
		if p.status = word; word == "" {
			q.outcomes[p.first].read(in, now, first)
		}
		return
	}
	var o outcome
	if word == "" {
		flags := in.int()
		o.kind = q.outcomes[p.first].kind
		o.read(in, now, flags)
		o.flags &^= flagFits | flagDebited
		if first > 0 {
			o.flags |= flagFits | flagDebited
			o.left = first
		} else if flags&flagFits != 0 { // peeks: nothing is debited
			o.flags |= flagFits
		}
	}
	f.share(a.first, word, &o)
	for _, r := range a.more {
		f.share(r, word, &o)
	}
}

// share gives a bill of an ask its outcome, and takes from what is left for those
// after it what its seats may have.
func (f *flight) share(r ref, word string, o *outcome) {
	q, p := f.part(r)
	p.status, q.outcomes[p.first] = word, *o
	if o.left == 0 {
		return
	}
	if o.left -= int64(q.seats); o.left <= 0 {
		o.left = 0
		o.flags &^= flagFits | flagDebited
	}
}

// fail leaves the error of the first write to every bill that would have been
// charged: nothing was written. Denials and peeks stand.
func (f *flight) fail(word string) {
	for _, q := range f.requests {
		for i := range q.parts {
			q.parts[i].refused = word
		}
	}
}

// read reads one balance's view.
func (o *outcome) read(in *reader, now, flags int64) {
	*o = outcome{kind: o.kind, now: now, at: now, flags: flags, left: o.left}
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
