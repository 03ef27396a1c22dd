package policy

import (
	"net/netip"
	"slices"
)

// addresses is a set of prefixes. It is asked once per prefix length, so that a
// list of a thousand addresses costs as much as one.
type addresses struct {
	lengths  []uint8 // as prefixLength has them
	prefixes map[netip.Prefix]struct{}
}

func compileAddresses(list []netip.Prefix) addresses {
	if len(list) == 0 {
		return addresses{}
	}
	s := addresses{prefixes: make(map[netip.Prefix]struct{}, len(list))}
	for _, p := range list {
		p = p.Masked()
		s.prefixes[p] = struct{}{}
		if n := prefixLength(p); !slices.Contains(s.lengths, n) {
			s.lengths = append(s.lengths, n)
		}
	}
	slices.Sort(s.lengths)
	return s
}

// prefixLength keeps the lengths of the two families apart: 0 to 32, and 127 to
// 255.
func prefixLength(p netip.Prefix) uint8 {
	if p.Addr().Is4() {
		return uint8(p.Bits())
	}
	return uint8(127 + p.Bits())
}

func (s *addresses) contains(ip netip.Addr) bool {
	if len(s.lengths) == 0 || !ip.IsValid() {
		return false
	}
	ip = ip.Unmap().WithZone("")
	return s.containsPrefix(ip, ip.BitLen())
}

// containsPrefix reports whether one prefix holds the first most bits of ip.
func (s *addresses) containsPrefix(ip netip.Addr, most int) bool {
	for _, n := range s.lengths {
		bits := int(n)
		if n > 32 {
			bits -= 127
		}
		if (n > 32) == ip.Is4() || bits > most {
			continue
		}
		if p, err := ip.Prefix(bits); err == nil {
			if _, ok := s.prefixes[p]; ok {
				return true
			}
		}
	}
	return false
}
