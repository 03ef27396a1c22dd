package identity

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"strings"
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
	// Lookups, if set, knows more keys and tenants; with TenantsOnly it is asked
	// about tenants alone.
	Lookups     *Lookups
	TenantsOnly bool
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

// check fills in the defaults and finds what cannot be used.
func (c *Config) check() error {
	ip := &c.ClientIP
	if ip.IPv4Prefix == 0 {
		ip.IPv4Prefix = DefaultIPv4Prefix
	}
	if ip.IPv6Prefix == 0 {
		ip.IPv6Prefix = DefaultIPv6Prefix
	}
	if ip.IPv4Prefix < 1 || ip.IPv4Prefix > 32 {
		return &ConfigError{Field: "client_ip.ipv4_prefix", Problem: fmt.Sprintf("%d is not within 1 to 32", ip.IPv4Prefix)}
	}
	if ip.IPv6Prefix < 1 || ip.IPv6Prefix > 128 {
		return &ConfigError{Field: "client_ip.ipv6_prefix", Problem: fmt.Sprintf("%d is not within 1 to 128", ip.IPv6Prefix)}
	}
	for i, p := range ip.TrustedProxies {
		if !p.IsValid() {
			return &ConfigError{Field: fmt.Sprintf("client_ip.trusted_proxies[%d]", i), Problem: "is not an address or a range"}
		}
	}
	if c.User.Verifier != nil && c.User.TokenHeader == "" {
		c.User.TokenHeader = authorization
	}
	if len(c.APIKeys.Keys) > 0 && c.APIKeys.Header == "" {
		return &ConfigError{Field: "api_keys.header", Problem: "is missing; write the header that carries the key, such as X-API-Key or Authorization"}
	}
	for _, h := range []struct {
		field string
		name  *string
	}{
		{"api_keys.header", &c.APIKeys.Header},
		{"user.header", &c.User.Header},
		{"user.token_header", &c.User.TokenHeader},
	} {
		if *h.name != "" && !IsToken(*h.name) {
			return &ConfigError{Field: h.field, Problem: quoted(*h.name) + " is not a header name"}
		}
		if strings.EqualFold(*h.name, "Host") {
			return &ConfigError{Field: h.field, Problem: "Host says where a request goes, and not who sends it"}
		}
		*h.name = textproto.CanonicalMIMEHeaderKey(*h.name)
	}
	return nil
}
