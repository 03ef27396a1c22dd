package redisstore

import (
	"strings"

	"github.com/weirhq/weir/algo"
)

// answer walks over a flight's reply. There are two forms of it, which
// lua/1_take_usual.lua describes: the usual one, of fixed fields, and an array.
type answer struct {
	reader
	usual       bool
	now         int64
	start, stop int64 // the usual run's, if it is of windows
}

// decode reads the reply into the requests. It returns the store's clock, and
// the word of a flight that was refused whole or whose writes were.
func (f *flight) decode(reply string) (now int64, refused string, err error) {
	in := answer{reader: reader{rest: reply}, usual: strings.HasPrefix(reply, "u")}
	if in.usual {
		in.next(1)
		in.now = in.fixed(7)
	} else {
		in.array()
		in.now = in.int()
		if _, refused = in.value(); refused == "STALE" {
			return in.now, refused, in.err
		}
	}
	for i := range f.runs {
		f.decodeRun(&in, &f.runs[i])
	}
	for _, r := range f.bills {
		q, p := f.part(r)
		if !in.usual {
			if _, p.status = in.value(); p.status != "" {
				continue
			}
		}
		if q.seats == 1 {
			for k := range p.count {
				q.outcomes[p.first+k].read(&in)
			}
			continue
		}
		// The last of its seats says how things stand; those before, how many were debited.
		o := outcome{kind: q.outcomes[p.first].kind, left: q.outcomes[p.first].left}
		o.read(&in)
		if o.flags&flagDebited != 0 {
			o.left++
		} else if o.left > 0 {
			o.flags |= flagFits | flagDebited
		}
		q.outcomes[p.first] = o
	}
	if in.usual && in.err == nil {
		refused = in.next(len(in.rest))
	}
	if in.err == nil && in.rest != "" {
		in.err = errReply
	}
	if refused != "" {
		f.fail(refused)
	}
	return in.now, refused, in.err
}

func (f *flight) decodeRun(in *answer, run *run) {
	if q, p := f.part(run.asks[0].first); in.usual && windows(q.outcomes[p.first].kind) {
		in.start, in.stop = in.fixed(8), in.fixed(8)
	}
	for i := range run.asks {
		f.decodeAsk(in, &run.asks[i])
	}
}

// windows reports whether balances of kind k are counted by periods.
func windows(k algo.Kind) bool { return k == algo.FixedWindow || k == algo.SlidingWindow }

// decodeAsk gives each bill of an ask its own outcome.
func (f *flight) decodeAsk(in *answer, a *ask) {
	q, p := f.part(a.first)
	if a.bills == 1 {
		p.status = q.outcomes[p.first].read(in)
		return
	}
	debited, word := in.debited()
	var o outcome
	if word == "" {
		o.kind = q.outcomes[p.first].kind
		o.read(in)
		fits := o.flags&flagFits != 0
		o.flags &^= flagFits | flagDebited
		if debited > 0 {
			o.flags |= flagFits | flagDebited
			o.left = debited
		} else if fits { // peeks: nothing is debited
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

// fixed reads an integer of n bytes.
func (in *answer) fixed(n int) int64 { return int64(bigEndian(in.next(n))) }

// debited reads how many bills of an ask were debited, or the word in its place.
func (in *answer) debited() (n int64, word string) {
	if in.usual {
		return in.fixed(4), ""
	}
	return in.value()
}

// read reads one balance's flags and view, or the word in their place.
func (o *outcome) read(in *answer) (word string) {
	*o = outcome{kind: o.kind, now: in.now, at: in.now, left: o.left}
	if in.usual {
		o.readUsual(in)
		return ""
	}
	if o.flags, word = in.value(); word != "" {
		return word
	}
	if o.flags&flagAt != 0 {
		o.at = in.int()
	}
	switch {
	case o.kind.Bucket():
		o.a, o.b = in.int(), in.int()
		if o.flags&flagForget != 0 {
			o.forget = in.int()
		}
	case o.kind == algo.SlidingLog:
		o.a, o.b, o.c = in.int(), in.int(), in.int()
	default:
		o.a, o.b, o.c, o.d = in.int(), in.int(), in.int(), in.int()
	}
	if o.flags&flagBlocked != 0 {
		o.blocked = in.int()
	}
	return ""
}

// readUsual reads a usual balance: a letter in the place of the flags says that it
// was debited, and that what follows is what was written of its state.
func (o *outcome) readUsual(in *answer) {
	letter := in.next(1)[0]
	written := letter == 'b' || letter == 'w'
	if o.flags = int64(letter); written {
		o.flags = flagFits | flagDebited
	}
	switch {
	case o.kind.Bucket():
		o.a, o.b = in.fixed(7), in.fixed(4)
		if written {
			in.next(7)
		}
	case o.kind == algo.SlidingLog:
		o.a, o.b, o.c = in.fixed(4), in.fixed(7), in.fixed(7)
	default:
		if written {
			in.next(7)
		}
		o.a, o.b, o.c, o.d = in.start, in.stop, in.fixed(4), in.fixed(4)
	}
}
