package replay

import (
	"errors"
	"hash/maphash"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// notes are what is counted of some requests. They are written where requests
// are decided and counted elsewhere: they are small, while a verdict is
// kilobytes, which would be dear to hand from core to core.
type notes struct {
	requests []noted
	charges  []charged
	text     []byte
}

// noted is one request.
type noted struct {
	at      int64
	err     error
	allowed bool
	client  part // the client of what was refused, if clients are counted
	end     int  // where its charges end
}

// charged is one charge of a request.
type charged struct {
	rule             *policy.Rule
	hash             uint64 // of the key
	remaining, limit int64  // of what was allowed; limit 0 if there is none
	key              part   // of what was refused
	allowed          bool
	missing          bool // refused for want of a key part; key is then the client
}

// part is a piece of notes.text.
type part struct{ from, to int }

func (n *notes) clear() { n.requests, n.charges, n.text = n.requests[:0], n.charges[:0], n.text[:0] }

func (n *notes) keep(s string) part {
	from := len(n.text)
	n.text = append(n.text, s...)
	return part{from, len(n.text)}
}

func (n *notes) spell(p part) string { return string(n.text[p.from:p.to]) }

func (run *Run) hash(key string) uint64 { return maphash.String(run.seed, key) }

// note notes the request that was decided last.
func (run *Run) note(n *notes, r *accesslog.Record, err error) {
	v := &run.verdict
	request := noted{at: r.At, err: err, allowed: v.Bill.Allowed}
	if err == nil {
		if v.Rule != nil {
			n.charges = append(n.charges, charged{rule: v.Rule, hash: run.hash(r.Client), key: n.keep(r.Client), missing: true})
		}
		last, hash := "", uint64(0) // the keys of a request are often the same under several rules
		for i := range v.Rules {
			d, key := &v.Bill.Each[i], v.Bill.Charges[i].Key
			if key != last {
				last, hash = key, run.hash(key)
			}
			c := charged{rule: v.Rules[i], hash: hash, allowed: d.Allowed}
			if !d.Allowed {
				c.key = n.keep(key)
			} else if d.Limit > 0 {
				c.remaining, c.limit = d.Remaining, d.Limit
			}
			n.charges = append(n.charges, c)
		}
		if !v.Bill.Allowed && run.clients != nil {
			request.client = n.keep(run.clientText(r))
		}
	}
	request.end = len(n.charges)
	n.requests = append(n.requests, request)
}

// count counts what was noted. The error is a dead context's.
func (run *Run) count(n *notes) error {
	from := 0
	for i := range n.requests {
		if err := run.countOne(n, &n.requests[i], n.charges[from:n.requests[i].end]); err != nil {
			return err
		}
		from = n.requests[i].end
	}
	return nil
}

func (run *Run) countOne(n *notes, r *noted, charges []charged) error {
	if input := (*weir.InputError)(nil); r.err != nil && !errors.As(r.err, &input) {
		return r.err
	}
	run.seen = max(run.seen, r.at)
	if run.requests == 0 {
		run.first, run.last = r.at, r.at
	}
	run.first, run.last = min(run.first, r.at), max(run.last, r.at)
	run.requests++
	run.series.add(run.seen, r.err == nil && r.allowed)
	if r.err != nil || !r.allowed {
		run.denied++
		run.worst.add(run.seen)
	} else {
		run.allowed++
	}
	if r.err != nil {
		run.refused++ // the service answers 400 and charges nothing
		return nil
	}
	if !r.allowed && run.clients != nil {
		run.clients[n.spell(r.client)]++
	}
	run.countCharges(n, charges)
	return nil
}

// countCharges counts what each rule would have said of the request alone. A
// rule with a try makes two charges under every reading of the path, the live
// one first.
func (run *Run) countCharges(n *notes, charges []charged) {
	for len(charges) > 0 {
		rule := charges[0].rule
		t := run.byRule[rule]
		step := 1
		if t.trial != nil && !charges[0].missing {
			step = 2
		}
		end := 1
		for end < len(charges) && charges[end].rule == rule {
			end++
		}
		t.take(run, n, charges[:end], step)
		if step == 2 {
			t.trial.take(run, n, charges[1:end], step)
		}
		charges = charges[end:]
	}
}
