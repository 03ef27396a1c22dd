package daemon

import (
	"errors"
	"net"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/weirhq/weir/identity"
)

// The PROXY protocol: a balancer that passes on bytes announces its client in a
// header before them. Whether there is one is never guessed from the bytes, since
// whoever sends them could then choose who to be:
//
//	peer is trusted    it must announce its client; without a header the
//	                   connection is closed
//	peer is not        it is the client; a header closes the connection
//
// LOCAL and UNKNOWN announce nobody: the peer is the client, as where a balancer
// looks after our health.

// announceWithin is how long a trusted peer may take over its header. Balancers
// send it with the first packet.
const announceWithin = 5 * time.Second

// announcing is a listener whose trusted peers announce their clients.
type announcing struct{ proxyproto.Listener }

func newAnnouncing(inner net.Listener, trusted func(peer net.Addr) bool, within time.Duration) net.Listener {
	return &announcing{proxyproto.Listener{
		Listener:          inner,
		ReadHeaderTimeout: within,
		ValidateHeader:    checkAnnounced,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			if trusted(o.Upstream) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.REJECT, nil
		},
	}}
}

var errNotTCP = errors.New("a PROXY header announces something else than a TCP client")

// checkAnnounced refuses clients that no rule could tell apart: on datagrams and
// on the balancer's own unix sockets.
func checkAnnounced(h *proxyproto.Header) error {
	if _, tcp := h.SourceAddr.(*net.TCPAddr); !tcp && !h.Command.IsLocal() {
		return errNotTCP
	}
	return nil
}

// Accept implements net.Listener. The header is read by whoever serves the
// connection, so that a slow one holds up nobody else.
func (l *announcing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if c, ok := conn.(*proxyproto.Conn); ok {
		return &announced{c}, err
	}
	return conn, err
}

// announced is a connection whose RemoteAddr is the announced client's.
type announced struct{ *proxyproto.Conn }

// CloseWrite does what the connection below does; see counted.
func (c *announced) CloseWrite() error {
	if w, ok := c.Raw().(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

// trusts reports whether the policy in force trusts a peer.
func (c *Core) trusts(peer net.Addr) bool {
	var call identity.Call
	call.Peer, call.Unix = identity.ParsePeer(peer.String())
	return c.Gate.Resolver().Locate(&call).Trusted
}
