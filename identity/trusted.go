package identity

import (
	"cmp"
	"net/netip"
	"slices"
)

// trusted is a set of addresses, kept as disjoint ranges in order. Published
// lists of proxies run to thousands of prefixes, and every entry of a walk asks.
type trusted []addrRange

type addrRange struct{ first, last netip.Addr }

func newTrusted(prefixes []netip.Prefix) trusted {
	var all trusted
	for _, p := range prefixes {
		p = p.Masked()
		all = append(all, addrRange{p.Addr(), lastOf(p)})
	}
	slices.SortFunc(all, func(a, b addrRange) int {
		return cmp.Or(a.first.Compare(b.first), a.last.Compare(b.last))
	})
	var merged trusted
	for _, r := range all {
		if n := len(merged); n > 0 && r.first.Compare(merged[n-1].last) <= 0 {
			if merged[n-1].last.Less(r.last) {
				merged[n-1].last = r.last
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// contains expects a plain address; nobody trusts an invalid one.
func (t trusted) contains(ip netip.Addr) bool {
	if !ip.IsValid() {
		return false
	}
	low, high := 0, len(t)
	for low < high {
		middle := int(uint(low+high) / 2)
		if t[middle].last.Less(ip) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low < len(t) && t[low].first.Compare(ip) <= 0
}

func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := range bytes {
		host := min(8, max(0, 8*(i+1)-p.Bits())) // bits of this byte past the prefix
		bytes[i] |= byte(1<<host - 1)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return ip
}
