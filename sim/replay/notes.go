package replay

import (
	"errors"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
)

// notes are what is counted of some requests. They are written where requests
// are decided and counted elsewhere, so they are small: a verdict is kilobytes,
// and dear to hand from core to core.
type notes struct {
	requests []noted
	refused  []refused
	texts    []byte // one after the other, in the order of what they belong to
	errs     []error
}

// noted is one request.
type noted struct {
	at      int64
	refused int32 // how many charges
	client  int32 // the length of its text, if it was refused and clients are counted
	allowed bool
	failed  bool // the next of errs is its
}

// refused is one charge that its rule refused.
type refused struct {
	hash    uint64 // of the key
	seat    int32
	key     uint16 // the length of its text
	missing bool   // refused for want of a key part; the text is the client's
}

func (n *notes) clear() {
	clear(n.errs)
	n.requests, n.refused, n.texts, n.errs = n.requests[:0], n.refused[:0], n.texts[:0], n.errs[:0]
}

// note notes a decided request, with the rules that refused it for want of a key
// part, and the hashes of the keys of the charges that the verdict is about.
func (run *Run) note(n *notes, r *request, barred []int, hashes []uint64) {
	v := &run.verdict
	request := noted{at: r.at, allowed: r.allowed, failed: r.err != nil}
	first := len(n.refused)
	if r.err != nil {
		n.errs = append(n.errs, r.err)
	} else {
		for _, rule := range barred {
			text := r.record.Client
			n.refused = append(n.refused, refused{hash: r.hash, seat: int32(2 * rule), key: uint16(len(text)), missing: true})
			n.texts = append(n.texts, text...)
		}
		for i := range hashes {
			d, seat := &v.Bill.Each[i], seatOf(v, i)
			if d.Allowed {
				run.least[seat].see(d)
				continue
			}
			key := v.Bill.Charges[i].Key
			n.refused = append(n.refused, refused{hash: hashes[i], seat: int32(seat), key: uint16(len(key))})
			n.texts = append(n.texts, key...)
		}
	}
	if (!r.allowed || r.err != nil) && run.clients != nil {
		text := r.client()
		request.client = int32(len(text))
		n.texts = append(n.texts, text...)
	}
	request.refused = int32(len(n.refused) - first)
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
	refused, errs := n.refused, n.errs
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
		run.countOne(r, refused[:r.refused])
		refused = refused[r.refused:]
	}
	return nil
}

// text takes the next text of the notes.
func (run *Run) text(size int) string {
	text := string(run.texts[:size])
	run.texts = run.texts[size:]
	return text
}

func (run *Run) countOne(r *noted, list []refused) {
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
	}
	for i := range list {
		c := &list[i]
		t := run.seats[c.seat]
		if t.request == run.requests { // a path with several readings: one request
			run.texts = run.texts[c.key:]
			continue
		}
		t.request = run.requests
		t.refuse(run, c)
	}
	if !allowed && run.clients != nil {
		run.clients[run.text(int(r.client))]++
	}
}

// spell spells the caller of what was refused, for people.
func (run *Run) spell(c *refused) string {
	text := run.text(int(c.key))
	if c.missing {
		return "(missing, " + text + ")"
	}
	return gate.KeyText(run.seats[c.seat&^1].rule, text)
}
