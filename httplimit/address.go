package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/weirhq/weir/identity"
)

// ByIP keys by the client's address; all addresses of one IPv6 /64 are one
// client. The client is the direct peer, unless that lies in one of trusted:
// then X-Forwarded-For is walked from its right end (all of its lines) to the
// first address that does not. Headers from other peers are ignored, so nobody
// can choose an address of his own. A prefix that is not valid trusts nobody.
//
// The key is missing on a unix socket without such a header.
func ByIP(trusted ...netip.Prefix) Key {
	return byResolver(resolver(identity.ClientIP{TrustedProxies: valid(trusted)}))
}

// ByClientIP is ByIP for those whose proxies send another header than
// X-Forwarded-For, whose callers are other prefixes, or whose proxy speaks over a
// unix socket. The error says what is wrong with c.
func ByClientIP(c identity.ClientIP) (Key, error) {
	r, err := identity.NewResolver(identity.Config{ClientIP: c})
	if err != nil {
		return nil, err
	}
	return byResolver(r), nil
}

func valid(prefixes []netip.Prefix) []netip.Prefix {
	var ok []netip.Prefix
	for _, p := range prefixes {
		if p.IsValid() {
			ok = append(ok, p)
		}
	}
	return ok
}

// resolver returns the resolver for c, or one that trusts nobody: a mistake
// there makes limits stricter, never a way around them.
func resolver(c identity.ClientIP) *identity.Resolver {
	r, err := identity.NewResolver(identity.Config{ClientIP: c})
	if err != nil {
		r, _ = identity.NewResolver(identity.Config{}) // the zero Config is always sound
	}
	return r
}

func byResolver(resolver *identity.Resolver) Key {
	return func(r *http.Request) string {
		call := identity.CallOf(r)
		caller := resolver.Locate(&call)
		if !caller.Network.IsValid() {
			return ""
		}
		return string(identity.AppendNetwork(append(make([]byte, 0, 64), "ip:"...), caller.Network))
	}
}
