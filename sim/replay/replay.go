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
	verdict gate.Verdict
	hashes  []uint64 // of the keys of the request at hand, where there are tries
	least   []least  // by seat

	matcher *matcher // what matches, in another goroutine while logs are read

	// For Take.
	sheet sheet
	notes notes

	// What counts, in another goroutine while logs are read.
	seen                               int64 // the clock of the tallies, which follow
	requests, allowed, denied, refused int64
	first, last                        int64
	seats                              []*tally // nil for a try that is none
	texts                              []byte   // of the notes that are counted, less what was taken
	series                             series
	worst                              minute
	clients                            map[string]int64 // refused requests, if Options.Clients
}

// Options says what a Run keeps beside the tallies of its rules.
type Options struct {
	// Clients keeps for each client how many of its requests were refused. A
	// client is an address cut as the policy cuts it, or a name.
	Clients bool
	// ClientIPv4Prefix and ClientIPv6Prefix cut the addresses of clients for whoever
	// compares policies that cut them differently; 0 leaves it to the policy.
	ClientIPv4Prefix, ClientIPv6Prefix int
	// Wants are the fields that the records have beside the usual: see WantsOf.
	Wants accesslog.Wants
	// MaxBytes bounds the balances, 1 GiB if 0.
	MaxBytes int64
}

// New returns a Run of a policy, with the resolver that goes with it.
func New(p *policy.Policy, r *identity.Resolver, o Options) (*Run, error) {
	run := &Run{}
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
	run.matcher = newMatcher(run.gate, o.Wants)
	run.matcher.bits4, run.matcher.bits6 = o.ClientIPv4Prefix, o.ClientIPv6Prefix
	run.verdict.Door, run.verdict.Bill.NoReceipts = "replay", true
	rules := run.gate.Policy().Rules()
	run.alone = newAlone(run.memory, &run.now, o.MaxBytes)
	for _, rule := range rules {
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
func (run *Run) Wants() accesslog.Wants { return run.matcher.wants }

// Close frees the balances.
func (run *Run) Close() error {
	return run.limiter.Close()
}

// Take decides a request at its time. The error is a dead context's.
func (run *Run) Take(ctx context.Context, r *accesslog.Record) error {
	run.sheet.clear()
	run.matcher.match(ctx, r, &run.sheet)
	run.notes.clear()
	run.decide(ctx, &run.sheet, &run.notes)
	return run.count(&run.notes)
}

// decide decides the requests of a sheet and notes what is to be counted of them.
func (run *Run) decide(ctx context.Context, s *sheet, to *notes) {
	v, first, barred := &run.verdict, 0, 0
	for i := range s.requests {
		r := &s.requests[i]
		run.now = max(run.now, r.at)
		var hashes []uint64
		why := s.barred[barred:r.barred]
		switch {
		case r.open:
			if r.err = run.gate.DecideClaims(ctx, v, &s.claims, first, r.claims); r.err == nil {
				hashes = run.chargeHashes(s.hashes[first:r.claims])
				run.alone.judge(v, hashes, false)
			}
			r.allowed = v.Bill.Allowed
		case first < r.claims: // the rules that do not refuse it
			if r.err = run.gate.PeekClaims(ctx, v, &s.claims, first, r.claims); r.err == nil {
				hashes = run.chargeHashes(s.hashes[first:r.claims])
				run.alone.judge(v, hashes, true)
			}
		}
		first, barred = r.claims, r.barred
		run.note(to, r, why, hashes)
	}
}

// chargeHashes returns the hashes of the charges' keys by those of the claims':
// a try has that of the charge before it.
func (run *Run) chargeHashes(claims []uint64) []uint64 {
	v := &run.verdict
	if len(claims) == len(v.Rules) {
		return claims
	}
	run.hashes = run.hashes[:0]
	for i := range v.Rules {
		if !v.IsTry(i) {
			run.hashes, claims = append(run.hashes, claims[0]), claims[1:]
		} else {
			run.hashes = append(run.hashes, run.hashes[i-1])
		}
	}
	return run.hashes
}
