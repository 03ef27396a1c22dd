package replay

import (
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// matcher is the half of a replay that asks no balance: who is it, and which
// limits apply. It is used by one goroutine, which may be ahead of the one that
// decides.
type matcher struct {
	gate     *gate.Gate
	sketches *sketches
	call     identity.Call
	fields   fields
	verdict  gate.Verdict
	wants    accesslog.Wants
	names    names

	bits4, bits6 int // of clients' addresses; 0 for as the policy cuts them

	// What is counted here, since it hangs on no decision.
	seed     maphash.Seed
	numbers  map[*policy.Rule]int
	met      []met  // by seat
	seenBy   *seats // keys that have been seen
	requests int64
}

// met is what came to one rule.
type met struct {
	matched int64 // requests
	callers int64
	request int64 // the last that was counted, by its number
}

// sheet is requests in order, matched.
type sheet struct {
	requests []request
	claims   policy.Claims // of all, one after the other
	hashes   []uint64      // of the claims' keys
	barred   []int         // rules that refused for want of a key part, of all requests
	given    *accesslog.Given
}

// request is what is handed on of one. It is small, for what one core has
// written is dear to read on another.
type request struct {
	at     int64
	record *accesslog.Record
	caller netip.Prefix // the network, if there is one
	claims int          // where its claims end
	barred int          // and the rules that refused it for want of a key part
	open   bool         // it hangs on its claims; else allowed and err are the answer

	allowed bool
	hash    uint64 // of the client, if there is such a rule
	err     error
}

func (s *sheet) clear() {
	s.claims.Clear()
	clear(s.requests)
	s.requests, s.hashes, s.barred, s.given = s.requests[:0], s.hashes[:0], s.barred[:0], nil
}

func newMatcher(g *gate.Gate, wants accesslog.Wants) *matcher {
	m := &matcher{gate: g, sketches: newSketches(g), wants: wants, seed: maphash.MakeSeed(), numbers: map[*policy.Rule]int{}, seenBy: newSeats()}
	m.verdict.Door, m.verdict.All = "replay", true
	for i, rule := range g.Policy().Rules() {
		m.numbers[rule] = i
		m.met = append(m.met, met{}, met{})
	}
	return m
}

// match adds a request to a sheet.
func (m *matcher) match(ctx context.Context, r *accesslog.Record, to *sheet) {
	call, v := &m.call, &m.verdict
	call.Peer = r.IP
	if !r.IP.IsValid() && r.Client != "" {
		call.Peer = m.names.address(r.Client)
	}
	call.Method, call.Path, call.Query, call.Host = r.Method, r.Path, r.Query, r.Host
	if m.wants != 0 {
		m.fields.record = r
		call.Header = &m.fields
	}
	v.Sketch = m.sketches.of(r)
	open, err := m.gate.Claim(ctx, call, v, &to.claims)
	q := request{
		at: r.At, record: r, caller: v.Caller.Network, claims: to.claims.Len(), open: open,
		allowed: v.Bill.Allowed, err: err,
	}
	if m.bits4 != 0 {
		q.caller = identity.NetworkOf(v.Caller.IP, m.bits4, m.bits6)
	}
	m.requests++
	if err == nil {
		for _, rule := range v.Missing() {
			q.hash = maphash.String(m.seed, r.Client)
			number := m.numbers[rule]
			to.barred = append(to.barred, number)
			m.see(2*number, q.hash)
		}
		m.seeClaims(to)
	}
	q.barred = len(to.barred)
	to.requests = append(to.requests, q)
}

// seeClaims counts and hashes the claims of the request at hand. Their keys are
// often the same under several rules.
func (m *matcher) seeClaims(s *sheet) {
	last, hash := "", uint64(0)
	for i := len(s.hashes); i < s.claims.Len(); i++ {
		rule, key, try := s.claims.At(i)
		if key != last {
			last, hash = key, maphash.String(m.seed, key)
		}
		s.hashes = append(s.hashes, hash)
		m.see(2*rule, hash)
		if try {
			m.see(2*rule+1, hash)
		}
	}
}

// see counts what came to a seat. More than one claim of a seat is a path with
// several readings: one request.
func (m *matcher) see(seat int, hash uint64) {
	s := &m.met[seat]
	if s.request != m.requests {
		s.request = m.requests
		s.matched++
	}
	if m.seenBy.add(seat, hash) {
		s.callers++
	}
}

// client names who asked as the policy counts them.
func (r *request) client() string {
	if r.record.IP.IsValid() && r.caller.IsValid() {
		return string(identity.AppendNetwork(nil, r.caller))
	}
	return r.record.Client
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
	conditions := slices.Clone(p.Exemptions())
	for _, r := range p.Rules() {
		for _, part := range r.Key {
			ask(strings.TrimPrefix(strings.TrimPrefix(part.String(), "fold:"), "header:"))
		}
		conditions = append(conditions, r.Match, r.Not)
	}
	for _, c := range conditions {
		for _, h := range c.Headers {
			ask(h.Name)
		}
	}
	if trusts {
		w |= accesslog.WantForwarded
	}
	return w
}
