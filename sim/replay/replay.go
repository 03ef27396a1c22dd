// Package replay runs recorded requests through a policy: the very gate of
// production, over the memory store, on a clock that stands where the log does.
//
//	accesslog.Record → identity.Call → gate ( virtual clock ) → tallies → Report
//
// What a log cannot tell (API keys, cookies, most headers) the gate finds
// missing, as it would in a request without them.
package replay

import (
	"context"
	"errors"
	"hash/maphash"

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
	now     int64 // microseconds; the store's clock
	verdict gate.Verdict
	call    identity.Call
	fields  fields
	headers bool
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
	// MaxBytes bounds the balances, 1 GiB if 0.
	MaxBytes int64
}

// New returns a Run of a policy, with the resolver that goes with it.
func New(p *policy.Policy, r *identity.Resolver, o Options) (*Run, error) {
	run := &Run{seed: maphash.MakeSeed(), byRule: map[*policy.Rule]*tally{}}
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
	run.verdict.Door = "replay"
	run.call.Header = &run.fields
	for _, rule := range run.gate.Policy().Rules() {
		t := newTally(rule)
		run.rules = append(run.rules, t)
		run.byRule[rule] = t
	}
	return run, nil
}

// Close frees the balances.
func (run *Run) Close() error { return run.limiter.Close() }

// Take decides a request at its time. The error is a dead context's.
func (run *Run) Take(ctx context.Context, r *accesslog.Record) error {
	run.now = max(run.now, r.At)
	if run.requests == 0 {
		run.first, run.last = r.At, r.At
	}
	run.first, run.last = min(run.first, r.At), max(run.last, r.At)
	run.requests++
	run.fields.record = r
	run.call.Peer = r.IP
	if !r.IP.IsValid() && r.Client != "" {
		run.call.Peer = run.names.address(r.Client)
	}
	run.call.Method, run.call.Path, run.call.Query, run.call.Host = r.Method, r.Path, r.Query, r.Host
	v := &run.verdict
	err := run.gate.Decide(ctx, &run.call, v)
	var input *weir.InputError
	switch {
	case errors.As(err, &input): // the service answers 400 and charges nothing
		run.refused++
		run.count(false)
		return nil
	case err != nil:
		return err
	}
	run.count(v.Bill.Allowed)
	if v.Rule != nil { // refused for want of a key part
		t := run.byRule[v.Rule]
		t.matched++
		t.refuse(run, run.hash(r.Client), func() string { return "(missing, " + r.Client + ")" })
	}
	run.tallyCharges(v)
	if !v.Bill.Allowed && run.clients != nil {
		run.clients[run.clientText(v, r)]++
	}
	return nil
}

// tallyCharges counts what each rule says of the request. A rule with a try makes
// two charges under every reading of the path, the live one first.
func (run *Run) tallyCharges(v *gate.Verdict) {
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
		run.worst.add(run.now)
	}
	run.series.add(run.now, allowed)
}

func (run *Run) hash(key string) uint64 { return maphash.String(run.seed, key) }

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
