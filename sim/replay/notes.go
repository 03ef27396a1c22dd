package replay

import (
	"errors"
	"hash/maphash"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
)

// notes are what is counted of some requests. They are written where requests
// are decided and counted elsewhere, so they are small: a verdict is kilobytes,
// and dear to hand from core to core.
type notes struct {
	requests []noted
	charges  []charged
	texts    []byte // one after the other, in the order of what they belong to
	errs     []error
}

// noted is one request.
type noted struct {
	at      int64
	charges int32
	client  int32 // the length of its text, if it was refused and clients are counted
	allowed bool
	failed  bool // the next of errs is its
}

// charged is one charge of a request.
type charged struct {
	hash    uint64 // of the key
	seat    int32
	key     uint16 // the length of its text, if it was refused
	allowed bool
	missing bool // refused for want of a key part; the text is the client's
}

func (n *notes) clear() {
	clear(n.errs)
	n.requests, n.charges, n.texts, n.errs = n.requests[:0], n.charges[:0], n.texts[:0], n.errs[:0]
}

// hashKeys hashes the keys of the request that was decided last: they are often
// the same under several rules.
func (run *Run) hashKeys() {
	run.hashes = run.hashes[:0]
	last, hash := "", uint64(0)
	for i := range run.verdict.Bill.Charges {
		if key := run.verdict.Bill.Charges[i].Key; key != last {
			last, hash = key, maphash.String(run.seed, key)
		}
		run.hashes = append(run.hashes, hash)
	}
}

// note notes a decided request, with the verdict if it was open.
func (run *Run) note(n *notes, r *request) {
	v := &run.verdict
	request := noted{at: r.at, allowed: r.allowed, failed: r.err != nil}
	first := len(n.charges)
	switch {
	case r.err != nil:
		n.errs = append(n.errs, r.err)
	case r.rule != nil:
		text := r.record.Client
		n.charges = append(n.charges, charged{
			hash: maphash.String(run.seed, text), seat: int32(2 * run.numbers[r.rule]), key: uint16(len(text)), missing: true,
		})
		n.texts = append(n.texts, text...)
	case r.open:
		for i := range v.Rules {
			d, seat := &v.Bill.Each[i], seatOf(v, i)
			length := 0
			if d.Allowed {
				run.least[seat].see(d)
			} else {
				key := v.Bill.Charges[i].Key
				length = len(key)
				n.texts = append(n.texts, key...)
			}
			n.charges = append(n.charges, charged{hash: run.hashes[i], seat: int32(seat), allowed: d.Allowed, key: uint16(length)})
		}
	}
	if r.err == nil && !r.allowed && run.clients != nil {
		text := r.client()
		request.client = int32(len(text))
		n.texts = append(n.texts, text...)
	}
	request.charges = int32(len(n.charges) - first)
	n.requests = append(n.requests, request)
}

// least is the admitted request that left the least of its limit, as remaining
// of limit.
type least struct{ remaining, limit int64 }

func (l *least) see(d *weir.Decision) {
	if d.Limit > 0 && d.Remaining*l.limit < l.remaining*d.Limit {
		l.remaining, l.limit = d.Remaining, d.Limit
	}
}

// count counts what was noted. The error is a dead context's.
func (run *Run) count(n *notes) error {
	charges, errs := n.charges, n.errs
	run.texts = n.texts
	for i := range n.requests {
		r := &n.requests[i]
		var err error
		if r.failed {
			err, errs = errs[0], errs[1:]
			if input := (*weir.InputError)(nil); !errors.As(err, &input) {
				return err
			}
		}
		run.countOne(r, charges[:r.charges])
		charges = charges[r.charges:]
	}
	return nil
}

// text takes the next text of the notes.
func (run *Run) text(size int) string {
	text := string(run.texts[:size])
	run.texts = run.texts[size:]
	return text
}

func (run *Run) countOne(r *noted, charges []charged) {
	run.seen = max(run.seen, r.at)
	if run.requests == 0 {
		run.first, run.last = r.at, r.at
	}
	run.first, run.last = min(run.first, r.at), max(run.last, r.at)
	run.requests++
	allowed := r.allowed && !r.failed
	run.series.add(run.seen, allowed)
	if allowed {
		run.allowed++
	} else {
		run.denied++
		run.worst.add(run.seen)
	}
	if r.failed {
		run.refused++ // the service answers 400 and charges nothing
		return
	}
	run.countCharges(charges)
	if !allowed && run.clients != nil {
		run.clients[run.text(int(r.client))]++
	}
}

// countCharges counts what each rule would have said of the request alone. More
// than one charge of a seat is a path with several readings: one request, and
// refused under one is refused.
func (run *Run) countCharges(charges []charged) {
	for i := range charges {
		c := &charges[i]
		t := run.seats[c.seat]
		if t.request != run.requests {
			t.request, t.refusedIt = run.requests, false
			t.matched++
		}
		if run.seenBy.add(int(c.seat), c.hash) {
			t.callers++
		}
		if c.allowed {
			continue
		}
		if t.refusedIt {
			run.texts = run.texts[c.key:]
			continue
		}
		t.refusedIt = true
		t.refuse(run, c)
	}
}

// spell spells the caller of what was refused, for people.
func (run *Run) spell(c *charged) string {
	text := run.text(int(c.key))
	if c.missing {
		return "(missing, " + text + ")"
	}
	return gate.KeyText(run.seats[c.seat&^1].rule, text)
}
