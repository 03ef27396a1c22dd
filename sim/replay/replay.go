// Package replay runs recorded requests through a policy: the very gate of
// production, over the memory store, on a clock that stands where the log does.
//
//	accesslog.Record → identity.Call → gate ( virtual clock ) → alone → notes → tallies → Report
//
// What a log cannot tell (API keys, cookies, most headers) the gate finds
// missing, as it would in a request without them.
package replay

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// Run is one replay. Requests must come in order of time. It is used by one
// goroutine.
type Run struct {
	// What decides.
	gate    *gate.Gate
	limiter *weir.Limiter
	memory  *weir.Memory
	now     int64 // microseconds; the clock of the gate's store
	alone   *alone
	call    identity.Call
	fields  fields
	verdict gate.Verdict
	wants   accesslog.Wants
	names   names
	seed    maphash.Seed
	hashes  []uint64             // of the keys of the request at hand
	least   []least              // by seat
	numbers map[*policy.Rule]int // of the rules
	touched int64                // means nothing: see Read
	one     notes                // for Take

	// What counts, in another goroutine while logs are read.
	seen                               int64 // the clock of the tallies, which follow
	requests, allowed, denied, refused int64
	first, last                        int64
	seats                              []*tally // nil for a try that is none
	seenBy                             seats    // keys that have been seen
	seenLast                           lookup
	texts                              []byte // of the notes that are counted, less what was taken
	series                             series
	worst                              minute
	clients                            map[string]int64 // refused requests, if Options.Clients
}

// Options says what a Run keeps beside the tallies of its rules.
type Options struct {
	// Clients keeps for each client how many of its requests were refused. A
	// client is an address cut as the policy cuts it, or a name.
	Clients bool
	// Wants are the fields that the records have beside the usual: see WantsOf.
	Wants accesslog.Wants
	// MaxBytes bounds the balances, 1 GiB if 0.
	MaxBytes int64
}

// New returns a Run of a policy, with the resolver that goes with it.
func New(p *policy.Policy, r *identity.Resolver, o Options) (*Run, error) {
	run := &Run{wants: o.Wants, seed: maphash.MakeSeed(), numbers: map[*policy.Rule]int{}, seenBy: seats{}}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Clients {
		run.clients = map[string]int64{}
	}
	run.memory = weir.NewMemory(weir.MemoryOptions{MaxBytes: o.MaxBytes, Now: func() int64 { return run.now }, OneLock: true})
	var err error
	if run.limiter, err = weir.New(weir.Options{Store: run.memory}); err != nil {
		return nil, err
	}
	run.gate = gate.New(run.limiter, r, p)
	run.verdict.Door, run.verdict.Bill.NoReceipts = "replay", true
	rules := run.gate.Policy().Rules()
	run.alone = newAlone(run.memory, o.MaxBytes, len(rules))
	for i, rule := range rules {
		run.numbers[rule] = i
		var try *tally
		if rule.Try != (weir.Limit{}) {
			try = newTally(&policy.Rule{Name: rule.Name + " (try)"})
		}
		run.seats = append(run.seats, newTally(rule), try)
		run.least = append(run.least, least{1, 1}, least{1, 1})
	}
	return run, nil
}

// Wants returns Options.Wants.
func (run *Run) Wants() accesslog.Wants { return run.wants }

// Close frees the balances.
func (run *Run) Close() error {
	return errors.Join(run.limiter.Close(), run.alone.close())
}

// Take decides a request at its time. The error is a dead context's.
func (run *Run) Take(ctx context.Context, r *accesslog.Record) error {
	run.one.clear()
	run.decide(ctx, r, &run.one)
	return run.count(&run.one)
}

// decide decides a request and notes what is to be counted of it.
func (run *Run) decide(ctx context.Context, r *accesslog.Record, to *notes) {
	call, v := &run.call, &run.verdict
	call.Peer = r.IP
	if !r.IP.IsValid() && r.Client != "" {
		call.Peer = run.names.address(r.Client)
	}
	call.Method, call.Path, call.Query, call.Host = r.Method, r.Path, r.Query, r.Host
	if run.wants != 0 {
		run.fields.record = r
		call.Header = &run.fields
	}
	run.now = max(run.now, r.At)
	err := run.gate.Decide(ctx, call, v)
	if err == nil && len(v.Rules) > 0 {
		run.hashKeys()
		err = run.alone.judge(ctx, v, run.hashes)
	}
	run.note(to, r, err)
}

// clientText names the client as the policy counts it.
func (run *Run) clientText(r *accesslog.Record) string {
	switch {
	case !r.IP.IsValid():
		return r.Client
	case run.verdict.Caller.Network.IsValid():
		return string(identity.AppendNetwork(nil, run.verdict.Caller.Network))
	}
	return r.Client
}

// fields are the header fields that a log has, as an identity.Header. The result
// of Values is valid until the next call.
type fields struct {
	record *accesslog.Record
	one    [1]string
}

// WantsOf returns the fields of records that a policy asks for. trusts says that
// it believes some peers' forwarding headers.
func WantsOf(p *policy.Policy, trusts bool) (w accesslog.Wants) {
	ask := func(header string) {
		switch header {
		case "User-Agent":
			w |= accesslog.WantAgent
		case "Referer":
			w |= accesslog.WantReferer
		case "X-Forwarded-For":
			w |= accesslog.WantForwarded
		}
	}
	for _, r := range p.Rules() {
		for _, part := range r.Key {
			ask(strings.TrimPrefix(strings.TrimPrefix(part.String(), "fold:"), "header:"))
		}
		for _, c := range []*policy.Conditions{&r.Match, &r.Not} {
			for _, h := range c.Headers {
				ask(h.Name)
			}
		}
	}
	if trusts {
		w |= accesslog.WantForwarded
	}
	return w
}

// Values implements identity.Header.
func (f *fields) Values(name string) []string {
	switch name {
	case "X-Forwarded-For":
		f.one[0] = f.record.Forwarded
	case "User-Agent":
		f.one[0] = f.record.Agent
	case "Referer":
		f.one[0] = f.record.Referer
	default:
		return nil
	}
	if f.one[0] == "" {
		return nil
	}
	return f.one[:]
}
