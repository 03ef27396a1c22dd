package identity

import "net/netip"

// Distrust tells of a header that was ignored because of who sent it.
type Distrust struct {
	Peer    netip.Prefix // the network of the peer that sent it
	Header  string
	Setting string // where it could be trusted
}
