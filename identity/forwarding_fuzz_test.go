package identity

import (
	"net/netip"
	"strings"
	"testing"
)

// Whatever a client writes, behind a proxy that appends it is the client, and
// without one it is the peer.
func FuzzForwarding(f *testing.F) {
	f.Add("6.6.6.6", false)
	f.Add(`for="6.6.6.6`, true)
	f.Add(`for="x, for="`, true)
	f.Add(`for=6.6.6.6;host="a\"`, true)
	f.Add("10.1.2.4, ,[", false)
	f.Add(strings.Repeat("10.1.2.4,", 70), false)
	f.Fuzz(func(t *testing.T, written string, forwarded bool) {
		header, appended := "X-Forwarded-For", "2001:db8:1:2::3"
		if forwarded {
			header, appended = "Forwarded", `for="[2001:db8:1:2::3]:4711";proto=https`
		}
		r := resolver(t, Config{ClientIP: ClientIP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}, Header: header}})
		for _, lines := range [][]string{{written + ", " + appended}, {written + "," + appended}, {written, appended}} {
			c := r.Locate(&Call{Peer: netip.MustParseAddr("10.1.2.3"), Header: Fields{header: lines}})
			if c.IP.String() != "2001:db8:1:2::3" {
				t.Errorf("%q: %v", lines, c.IP)
			}
		}
		c := r.Locate(&Call{Peer: netip.MustParseAddr("203.0.113.7"), Header: Fields{header: {written}}})
		if c.IP.String() != "203.0.113.7" {
			t.Errorf("%q from an untrusted peer: %v", written, c.IP)
		}
		// Alone behind the proxy anything readable may come of it, but never what
		// is not an address.
		c = r.Locate(&Call{Peer: netip.MustParseAddr("10.1.2.3"), Header: Fields{header: {written}}})
		if !c.IP.IsValid() || c.IP.IsUnspecified() || c.IP.Is4In6() || c.IP.Zone() != "" || !c.Network.IsValid() {
			t.Errorf("%q: %v, %v", written, c.IP, c.Network)
		}
	})
}

// A set of ranges holds what one of its prefixes holds.
func FuzzTrusted(f *testing.F) {
	f.Add([]byte{10, 1, 2, 0, 24, 10, 1, 0, 0, 16, 0, 0, 0, 0, 0}, []byte{10, 1, 2, 3})
	f.Add([]byte{10, 1, 2, 0, 24, 10, 1, 3, 0, 24, 9, 0, 0, 0, 31}, []byte{10, 1, 3, 255})
	f.Fuzz(func(t *testing.T, list, address []byte) {
		var prefixes []netip.Prefix
		for ; len(list) >= 5; list = list[5:] {
			prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte(list)), int(list[4])%33))
			ip6 := netip.AddrFrom16([16]byte{list[0], 15: list[1]})
			prefixes = append(prefixes, netip.PrefixFrom(ip6, int(list[4])%129))
		}
		set := newTrusted(prefixes)
		var room [16]byte
		copy(room[:], address)
		for _, ip := range []netip.Addr{netip.AddrFrom4([4]byte(room[:])), netip.AddrFrom16(room).Unmap()} {
			want := false
			for _, p := range prefixes {
				want = want || p.Contains(ip)
			}
			if got := set.contains(ip); got != want {
				t.Errorf("%v in %v: %v", ip, prefixes, got)
			}
		}
		if set.contains(netip.Addr{}) {
			t.Error("an invalid address is trusted")
		}
	})
}
