package identity

import (
	"net/netip"
	"net/textproto"
	"strings"
)

// How the client is found among what a request says of itself
//
//	X-Forwarded-For: 6.6.6.6, 203.0.113.7   <- client wrote 6.6.6.6, proxy A appended
//	X-Forwarded-For: 10.1.2.4               <- proxy B appended A's address
//	peer: 10.1.2.5                          <- B itself
//
// Each proxy appends whom it spoke to, so what it says is to the right of
// everything it was told. The walk begins at the peer and goes left for as long
// as the party that spoke is trusted; the first that is not is the client. What
// stands further left is the client's own invention. All header lines are one
// list, the last line the newest.
//
// Whatever cannot be read ends the walk at the last trusted hop. Skipping it
// would reach words that nobody vouches for: a trusted proxy that wrote
// "unknown" said that it does not know, not "believe the one before me". Empty
// entries are treated alike, although HTTP lets lists hold them: here an empty
// one is a hop that could not be named.
//
// Forwarded is read from the right as well, quotes included. Read from the left
// an opening quote planted by the client would swallow the entry that the proxy
// appended.
//
// Any other header holds one address, as good as the proxy that sets it. Twice
// it says nothing.

// DefaultForwardingHeader is read from trusted peers if nothing else is set.
const DefaultForwardingHeader = "X-Forwarded-For"

// maxHops bounds a walk. Real chains have a handful.
const maxHops = 64

type forwarding struct {
	header    string // canonical
	single    bool   // one address, not a list
	forwarded bool   // RFC 7239
	trusted   trusted
}

func newForwarding(c *ClientIP) (forwarding, error) {
	f := forwarding{trusted: newTrusted(c.TrustedProxies)}
	name := c.Header
	if name == "" {
		name = DefaultForwardingHeader
	}
	if !IsToken(name) {
		return f, &ConfigError{Field: "client_ip.header", Problem: quoted(name) + " is not a header name; write one, such as X-Forwarded-For, Forwarded, X-Real-IP or CF-Connecting-IP"}
	}
	f.read(textproto.CanonicalMIMEHeaderKey(name))
	return f, nil
}

// read makes header, in canonical form, the one that is read.
func (f *forwarding) read(header string) {
	f.header = header
	f.forwarded = header == "Forwarded"
	f.single = !f.forwarded && header != DefaultForwardingHeader
}

// client returns the client's address as told by a trusted peer. The peer is
// invalid on a unix socket, and then so may be the answer.
func (f *forwarding) client(lines []string, peer netip.Addr) netip.Addr {
	if f.single {
		if len(lines) == 1 {
			if ip, ok := parseNode(lines[0]); ok {
				return ip
			}
		}
		return peer
	}
	client, hops := peer, 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, more := lines[i], true; more; hops++ {
			if hops == maxHops {
				return client
			}
			var ip netip.Addr
			var ok bool
			if rest, ip, ok, more = f.cutLast(rest); !ok {
				return client
			}
			client = ip
			if !f.trusted.contains(ip) {
				return client
			}
		}
	}
	return client
}

// cutLast takes the last entry off a list and reads its address.
func (f *forwarding) cutLast(list string) (rest string, ip netip.Addr, ok, more bool) {
	if f.forwarded {
		return cutLastForwarded(list)
	}
	comma := strings.LastIndexByte(list, ',')
	ip, ok = parseNode(list[comma+1:])
	return list[:max(comma, 0)], ip, ok, comma >= 0
}
