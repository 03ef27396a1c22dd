package identity

import (
	"net/netip"
	"strings"
)

// The bits of an address that make a caller unless configured otherwise. One
// subscriber has a single IPv4 address, but at least a /64 of IPv6.
const (
	DefaultIPv4Prefix = 32
	DefaultIPv6Prefix = 64
)

// nat64 holds IPv4 clients behind a translator (RFC 6052). They are many
// subscribers in one /64, so the embedded address is what tells them apart.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// NetworkOf cuts an address to the network that counts as one caller. The
// address may be mapped or zoned; an invalid one has an invalid network.
func NetworkOf(ip netip.Addr, bits4, bits6 int) netip.Prefix {
	ip = plain(ip)
	bits := bits6
	switch {
	case ip.Is4():
		bits = bits4
	case bits6 < nat64.Bits()+bits4 && nat64.Contains(ip):
		bits = nat64.Bits() + bits4
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address, or bits that NewResolver refuses
	}
	return p
}

// AppendNetwork appends the text of a network: a lone IPv4 address as it stands,
// anything else with its length. Equal networks have equal text.
func AppendNetwork(dst []byte, p netip.Prefix) []byte {
	if p.Addr().Is4() && p.IsSingleIP() {
		return p.Addr().AppendTo(dst)
	}
	return p.AppendTo(dst)
}

// plain is the one form in which addresses are compared: 4 bytes where they
// mean IPv4, and no zone, which only says by which wire they came.
func plain(ip netip.Addr) netip.Addr { return ip.Unmap().WithZone("") }

// IsLoopback reports whether host, an address or a name without a port, is this
// machine as only this machine reaches it.
func IsLoopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// ParsePrefix reads an address or a CIDR range. Bits after the length are
// dropped; a range of mapped addresses becomes one of IPv4.
func ParsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		ip, err := netip.ParseAddr(s)
		if err != nil || ip.Zone() != "" {
			return netip.Prefix{}, badPrefix(s)
		}
		ip = ip.Unmap()
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, badPrefix(s)
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

func badPrefix(s string) error {
	return &ConfigError{Field: "address", Problem: quoted(s) + " is neither an address nor a range such as 10.0.0.0/8 or 2001:db8::/32"}
}

// ParsePeer reads the address of a direct peer as net/http gives it in
// RemoteAddr. Empty, and what begins with @ or /, is a unix socket. What cannot
// be read is an invalid address, which nothing trusts.
func ParsePeer(remote string) (peer netip.Addr, unix bool) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.Addr{}, true
	}
	peer, _ = parseNode(remote)
	return peer, false
}

// maxNode is longer than any address with brackets, zone and port has reason to be.
const maxNode = 128

// parseNode reads an address as proxies write them: bare, with a port, in
// brackets, or both. The unspecified address stands for nobody.
func parseNode(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if s == "" || len(s) > maxNode {
		return netip.Addr{}, false
	}
	host, port := s, ""
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return netip.Addr{}, false
		}
		host, port = s[1:end], s[end+1:]
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		host, port = s[:i], s[i:]
	}
	if port != "" && !isPort(port) {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(host)
	if ip = plain(ip); err != nil || ip.IsUnspecified() {
		return netip.Addr{}, false
	}
	return ip, true
}

// isPort reports whether s is a colon and a port, in digits or obfuscated as
// RFC 7239 allows.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return strings.Trim(s[2:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
	}
	n := 0
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > 65535 {
			return false
		}
	}
	return true
}
