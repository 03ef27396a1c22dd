package grpclimit

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weirhq/weir/identity"
)

// Key says whom a call is charged to: a text that is one caller's and nobody
// else's. "" means that the call lacks what the key is made of; it is then
// charged to its address. method is the full one, /package.Service/Method. A Key
// is called concurrently.
type Key func(ctx context.Context, method string) string

// ByIP keys by the client's address; all addresses of one IPv6 /64 are one
// client. The client is the direct peer, unless that lies in one of trusted:
// then the metadata x-forwarded-for is walked from its right end to the first
// address that does not. A prefix that is not valid trusts nobody.
func ByIP(trusted ...netip.Prefix) Key {
	var valid []netip.Prefix
	for _, p := range trusted {
		if p.IsValid() {
			valid = append(valid, p)
		}
	}
	key, err := ByClientIP(identity.ClientIP{TrustedProxies: valid})
	if err != nil {
		key, _ = ByClientIP(identity.ClientIP{}) // the zero value is always sound, and trusts nobody
	}
	return key
}

// ByClientIP is ByIP for those whose proxies send another header than
// X-Forwarded-For, or whose callers are other prefixes. The error says what is
// wrong with c.
func ByClientIP(c identity.ClientIP) (Key, error) {
	r, err := identity.NewResolver(identity.Config{ClientIP: c})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, method string) string {
		call := callOf(ctx, method)
		caller := r.Locate(&call)
		if !caller.Network.IsValid() {
			return ""
		}
		return string(identity.AppendNetwork(append(make([]byte, 0, 64), "ip:"...), caller.Network))
	}, nil
}

// ByMetadata keys by a metadata field. One that is absent, empty or given more
// than once is missing. The value is what the client says: fit for API keys that
// are checked, not for telling strangers apart.
func ByMetadata(name string) Key {
	name = strings.ToLower(name)
	prefix := "metadata:" + name + ":"
	return func(ctx context.Context, _ string) string {
		md, _ := metadata.FromIncomingContext(ctx)
		if v := md[name]; len(v) == 1 && v[0] != "" {
			return prefix + v[0]
		}
		return ""
	}
}

// ByMethod keys by the full method.
func ByMethod() Key {
	return func(_ context.Context, method string) string { return "method:" + method }
}

// By keys by what value returns, such as the user that authentication found.
// kind keeps its keys apart from all others; ip, metadata, method and keyless are
// those of this package. "" from value is a missing key.
func By(kind string, value func(ctx context.Context, method string) string) Key {
	prefix := strings.NewReplacer("%", "%25", ":", "%3A").Replace(kind) + ":" // a colon ends the kind
	return func(ctx context.Context, method string) string {
		if v := value(ctx, method); v != "" {
			return prefix + v
		}
		return ""
	}
}

// Everyone charges all calls to one balance.
func Everyone() Key { return func(context.Context, string) string { return "everyone" } }

// First keys by the first of keys that is not missing.
func First(keys ...Key) Key {
	return func(ctx context.Context, method string) string {
		for _, key := range keys {
			if k := key(ctx, method); k != "" {
				return k
			}
		}
		return ""
	}
}

// Join keys by all of keys together. It is missing if one of them is. Parts carry
// their length, so that no two lists of parts make one text.
func Join(keys ...Key) Key {
	return func(ctx context.Context, method string) string {
		var b strings.Builder
		for _, key := range keys {
			k := key(ctx, method)
			if k == "" {
				return ""
			}
			b.WriteString(strconv.Itoa(len(k)))
			b.WriteByte(':')
			b.WriteString(k)
		}
		return b.String()
	}
}

// callOf returns a call as identity and policy know requests: a POST to its
// method, as it is on the wire.
func callOf(ctx context.Context, method string) identity.Call {
	c := identity.Call{Method: "POST", Path: method}
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		if p.Addr.Network() == "unix" {
			c.Unix = true
		} else {
			c.Peer, c.Unix = identity.ParsePeer(p.Addr.String())
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	c.Header = fields(md)
	if host := md[":authority"]; len(host) == 1 {
		c.Host = host[0]
	}
	return c
}

// fields is metadata, whose names are in lower case, as header fields.
type fields metadata.MD

// Values implements identity.Header.
func (f fields) Values(name string) []string { return f[strings.ToLower(name)] }
