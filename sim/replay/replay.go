// Package replay runs recorded requests through a policy: the very gate of
// production, over the memory store, on a clock that stands where the log does.
//
//	accesslog.Record → identity.Call → gate ( virtual clock ) → alone → tallies → Report
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
	gate    *gate.Gate
	limiter *weir.Limiter
	memory  *weir.Memory
	now     int64 // microseconds; the clock of the gate's store
	seen    int64 // the clock of the tallies, which follow
	alone   *alone
	key     string // the last that hashKey was asked for
	keyHash uint64
	seenBy  map[uint64]uint64 // keys by hash: a bit for each rule that has seen it
	keySeen uint64            // the last key in it that was looked at, and its bits
	keyBits uint64
	tallies int
	one     step
	wants   accesslog.Wants
	names   names
	seed    maphash.Seed

	requests, allowed, denied, refused int64
	first, last                        int64
	rules                              []*tally
	byRule                             map[*policy.Rule]*tally
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
	run := &Run{wants: o.Wants, seed: maphash.MakeSeed(), byRule: map[*policy.Rule]*tally{}, seenBy: map[uint64]uint64{}}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Clients {
		run.clients = map[string]int64{}
	}
	run.memory = weir.NewMemory(weir.MemoryOptions{MaxBytes: o.MaxBytes, Now: func() int64 { return run.now }})
	var err error
	if run.limiter, err = weir.New(weir.Options{Store: run.memory}); err != nil {
		return nil, err
	}
	run.gate = gate.New(run.limiter, r, p)
	run.alone = newAlone(run.memory, o.MaxBytes)
	rules := run.gate.Policy().Rules()
	for _, rule := range rules {
		t := run.newTally(rule)
		run.rules = append(run.rules, t)
		run.byRule[rule] = t
	}
	return run, nil
}

// Wants returns Options.Wants.
func (run *Run) Wants() accesslog.Wants { return run.wants }

// Close frees the balances.
func (run *Run) Close() error {
	return errors.Join(run.limiter.Close(), run.alone.close())
}

// step is one request on its way through a Run.
type step struct {
	record  *accesslog.Record
	call    identity.Call
	fields  fields
	verdict gate.Verdict
	decided bool
	err     error
}

// Take decides a request at its time. The error is a dead context's.
func (run *Run) Take(ctx context.Context, r *accesslog.Record) error {
	run.match(ctx, &run.one, r)
	run.charge(ctx, &run.one)
	return run.tally(&run.one)
}

// match finds what limits apply to a request. It may run ahead of charge, in
// another goroutine.
func (run *Run) match(ctx context.Context, s *step, r *accesslog.Record) {
	s.record = r
	s.call.Peer = r.IP
	if !r.IP.IsValid() && r.Client != "" {
		s.call.Peer = run.names.address(r.Client)
	}
	s.call.Method, s.call.Path, s.call.Query, s.call.Host = r.Method, r.Path, r.Query, r.Host
	s.call.Header = nil
	if run.wants != 0 {
		s.fields.record = r
		s.call.Header = &s.fields
	}
	s.verdict.Door = "replay"
	s.decided, s.err = run.gate.Match(ctx, &s.call, &s.verdict)
}

// charge decides a request that was matched.
func (run *Run) charge(ctx context.Context, s *step) {
	run.now = max(run.now, s.record.At)
	if s.err == nil && !s.decided {
		if s.err = run.gate.Charge(ctx, &s.verdict); s.err == nil {
			s.err = run.alone.judge(ctx, &s.verdict)
		}
	}
}

// tally counts a request that was decided.
func (run *Run) tally(s *step) error {
	r, v := s.record, &s.verdict
	run.seen = max(run.seen, r.At)
	if run.requests == 0 {
		run.first, run.last = r.At, r.At
	}
	run.first, run.last = min(run.first, r.At), max(run.last, r.At)
	run.requests++
	if s.err != nil {
		if input := (*weir.InputError)(nil); !errors.As(s.err, &input) {
			return s.err
		}
		run.refused++ // the service answers 400 and charges nothing
		run.count(false)
		return nil
	}
	run.count(v.Bill.Allowed)
	if v.Rule != nil { // refused for want of a key part
		t := run.byRule[v.Rule]
		t.matched++
		t.refuse(run, run.hash(r.Client), func() string { return "(missing, " + r.Client + ")" })
	}
	if !v.Bill.Allowed && run.clients != nil {
		run.clients[strings.Clone(run.clientText(v, r))]++
	}
	run.tallyCharges(v)
	return nil
}

// tallyCharges counts what each rule would have said of the request alone. A rule with a try makes
// two charges under every reading of the path, the live one first.
func (run *Run) tallyCharges(v *gate.Verdict) {
	run.key = "" // its room has been used anew
	for i := 0; i < len(v.Rules); {
		rule := v.Rules[i]
		t := run.byRule[rule]
		step := 1
		if t.trial != nil {
			step = 2
		}
		end := i
		for end < len(v.Rules) && v.Rules[end] == rule {
			end++
		}
		t.take(run, v, i, end, step)
		if t.trial != nil {
			t.trial.take(run, v, i+1, end, step)
		}
		i = end
	}
}

func (run *Run) count(allowed bool) {
	if allowed {
		run.allowed++
	} else {
		run.denied++
		run.worst.add(run.seen)
	}
	run.series.add(run.seen, allowed)
}

func (run *Run) hash(key string) uint64 { return maphash.String(run.seed, key) }

// hashKey is hash for the keys of one request, which are often the same under
// several rules.
func (run *Run) hashKey(key string) uint64 {
	if key != run.key || key == "" {
		run.key, run.keyHash = key, run.hash(key)
	}
	return run.keyHash
}

// clientText names the client as the policy counts it.
func (run *Run) clientText(v *gate.Verdict, r *accesslog.Record) string {
	switch {
	case !r.IP.IsValid():
		return r.Client
	case v.Caller.Network.IsValid():
		return string(identity.AppendNetwork(nil, v.Caller.Network))
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
