// Package identity says who is asking. It turns what a door saw of a request,
// a Call, into a Caller, believing only what trusted peers say, and a Caller
// into the text of key parts.
package identity

import (
	"net/http"
	"net/netip"
)

// Call is a request as any door sees it, free of its protocol. A door fills it
// and changes nothing afterwards.
type Call struct {
	Peer   netip.Addr // the direct peer; invalid on a unix socket
	Unix   bool       // the peer is on a unix socket
	Method string     // as received; policy compares upper-cased
	Path   string     // raw path, query cut off, percent-encoding and any # kept
	Query  string     // raw query, without "?"
	Host   string     // as received, port included
	Header Header     // request header fields
	Attrs  map[string]string
	Cost   int64 // units asked for; 0 leaves it to the policy
	Peek   bool  // ask without charging

	// Gateway is set where the peer asks about a request that it has not passed
	// on yet, and lists the headers in which it names its client, all of its own
	// making. Then the client's address is read there and nowhere else, and only
	// a token names the user: every other header may be the client's.
	Gateway []string
}

// Header gives the values of a header field, in order of arrival. Names are in
// canonical form (net/textproto). http.Header is one.
type Header interface{ Values(name string) []string }

// CallOf returns r as net/http has it. The Call shares r's header.
func CallOf(r *http.Request) Call {
	c := Call{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host, Header: r.Header}
	c.Peer, c.Unix = ParsePeer(r.RemoteAddr)
	return c
}
