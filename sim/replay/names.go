package replay

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// names gives clients that a log knows by name an address to go through the gate
// with: each its own, in a block of IPv6 that nobody has (c100::/8 is reserved),
// apart by their first 40 bits so that they stay apart however the policy cuts
// addresses, up to ipv6_prefix: 40.
type names struct {
	known map[string]netip.Addr
	texts []string
}

const namesFirst = 0xc1

func (n *names) address(name string) netip.Addr {
	if ip, ok := n.known[name]; ok {
		return ip
	}
	if n.known == nil {
		n.known = map[string]netip.Addr{}
	}
	var b [16]byte
	b[0] = namesFirst
	binary.BigEndian.PutUint32(b[1:], uint32(len(n.texts)))
	name = strings.Clone(name) // it shares memory with the text of other lines
	ip := netip.AddrFrom16(b)
	n.known[name] = ip
	n.texts = append(n.texts, name)
	return ip
}

// spell puts the names back into the text of a key, such as "ip=c1…/64 route=/".
func (n *names) spell(key string) string {
	if len(n.texts) == 0 {
		return key
	}
	words := strings.Split(key, " ")
	for i, w := range words {
		part, value, ok := strings.Cut(w, "=")
		end := ""
		if !ok { // the end of "(missing, ip …)"
			part, value, end = "", strings.TrimSuffix(w, ")"), w[len(strings.TrimSuffix(w, ")")):]
		} else {
			part += "="
		}
		p, err := netip.ParsePrefix(value)
		if err != nil {
			continue
		}
		b := p.Addr().As16()
		if at := binary.BigEndian.Uint32(b[1:]); p.Addr().Is6() && b[0] == namesFirst && int(at) < len(n.texts) {
			words[i] = part + n.texts[at] + end
		}
	}
	return strings.Join(words, " ")
}
