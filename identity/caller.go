package identity

import "net/netip"

// Caller is who asks, as far as it is known. Locate fills the address, Identify
// the rest; a field that could not be established is empty, and a key part made
// of it is missing.
type Caller struct {
	// IP is the client's address: IPv4-mapped addresses unmapped, without zone.
	// It is invalid where none is known, as on a unix socket without a
	// forwarding header.
	IP netip.Addr
	// Network is what the key part "ip" counts by: IP cut to the configured
	// prefix. Every address of one Network is one caller.
	Network netip.Prefix
	// Trusted says that the direct peer is one whose headers are believed.
	Trusted bool

	// Key says what is known of the API key presented.
	Key KeyState
	// APIKey names a known key without giving it away: the SHA-256 of the key
	// in lower-case hex. It is empty unless Key is KeyKnown or KeyDisabled.
	APIKey string
	// Tenant is whose key it is.
	Tenant string
	// Plan is, in this order: the key's plan in the directory, the tenant's
	// there, the key's in the file, the tenant's in the file.
	Plan string
	// User is named by a trusted peer or by a verified token.
	User string
	// Limits holds the tenant's own limits by rule name, as ParseLimit reads
	// them. It is shared between calls and must not be changed.
	Limits map[string]string
}

// Disabled reports whether the caller's API key is known and switched off.
func (c *Caller) Disabled() bool { return c.Key == KeyDisabled }

// Known reports whether the caller presented an API key that is in force.
func (c *Caller) Known() bool { return c.Key == KeyKnown }

// KeyState says what is known of an API key. Every state but KeyKnown and
// KeyDisabled makes the parts api_key, tenant and plan missing.
type KeyState uint8

// The states of an API key.
const (
	KeyAbsent     KeyState = iota // none presented, or more than one
	KeyUnknown                    // nobody's
	KeyUnresolved                 // never seen, and not looked up: over the budget, or the directory failed
	KeyKnown
	KeyDisabled
)

func (s KeyState) String() string {
	switch s {
	case KeyUnknown:
		return "unknown"
	case KeyUnresolved:
		return "unresolved"
	case KeyKnown:
		return "known"
	case KeyDisabled:
		return "disabled"
	}
	return "absent"
}
