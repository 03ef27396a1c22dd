package policy

import (
	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// Match is what a policy says of one request. It is filled by Policy.Charges,
// may be reused, and belongs to one goroutine at a time. Keys point into its
// buffer: they are valid until it is filled again.
type Match struct {
	// Set by the caller, kept from one request to the next.
	Modes   Modes // switches in force
	Explain bool  // fill Skipped
	Trial   bool  // refuse no request for its path or for the number of its limits
	All     bool  // claim for all rules, also past one that refuses the request, and fill Missing

	// Sketch, set by the caller, is what the policy's Sketch said of the request's
	// method, host and path, or nil.
	Sketch *Sketch

	Charges []weir.Charge
	Rules   []*Rule // Rules[i] is the rule of Charges[i]
	Exempt  bool    // an exempt entry matched: admit, charge nothing
	Denied  *Rule   // refuses the request since a key part is missing; Charges is then empty
	Skipped []Skipped
	Missing []*Rule // as Denied: all of them

	from     []origin       // parallel to Charges
	asked    *identity.Call // that Exempt has answered for
	claims   Claims         // of Charges
	byIP     string         // the key of rules that count by address alone, once it is known
	readings []string
	found    candidates
}

// origin is where a charge is from.
type origin struct {
	*rule
	shown bool // may be shown in response headers
	try   bool
}

// Modes are the modes that rules are switched to for a while, by name; "" is
// every rule that is not named.
type Modes map[string]Mode

// of returns the mode that r is in.
func (m Modes) of(r *rule) Mode {
	if len(m) == 0 {
		return r.Mode
	}
	if mode, ok := m[r.Name]; ok {
		return mode
	}
	if mode, ok := m[""]; ok {
		return mode
	}
	return r.Mode
}

// Skipped is a rule that did not apply, and why.
type Skipped struct {
	Rule *Rule
	Why  string
}

// Shown reports whether charge i may be shown in response headers.
func (m *Match) Shown(i int) bool { return m.from[i].shown }

// Number returns the place of the rule of charge i among the policy's rules.
func (m *Match) Number(i int) int { return m.from[i].number }

// Try reports whether charge i is its rule's try. The live charge it stands
// beside is the one before it.
func (m *Match) Try(i int) bool { return m.from[i].try }

// reset forgets the last request and keeps the room.
func (m *Match) reset() {
	m.Charges, m.Rules, m.from = m.Charges[:0], m.Rules[:0], m.from[:0]
	m.Exempt, m.Denied, m.Skipped, m.Missing = false, nil, m.Skipped[:0], m.Missing[:0]
	clear(m.readings)
	m.readings = m.readings[:0]
	m.asked, m.byIP = nil, ""
}

// clearFound empties the set of candidates for a list of rules.
func (m *Match) clearFound(rules int) {
	words := (rules + 63) / 64
	if cap(m.found) < words {
		m.found = make(candidates, words)
	}
	m.found = m.found[:words]
	clear(m.found)
}

func (m *Match) skip(r *rule, why string) {
	if m.Explain {
		m.Skipped = append(m.Skipped, Skipped{&r.Rule, why})
	}
}

// source is where key parts of the request are read from.
func (q *request) source(route string) identity.Source {
	return identity.Source{Call: q.call, Caller: q.caller, Path: q.path, Route: route}
}

// Route returns the pattern by which the rule of charge i matched the path, as
// the key part route has it, or "" if there is no such charge.
func (m *Match) Route(i int) string {
	if i < 0 || i >= len(m.from) || len(m.readings) == 0 {
		return ""
	}
	for _, path := range m.readings {
		if p := m.from[i].match.route(path); p != nil {
			return p.text
		}
	}
	return everyPath
}
