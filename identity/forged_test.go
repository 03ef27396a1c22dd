package identity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// forgery is one line of testdata/forged.jsonl: what a request may carry, and
// whose balance it must be charged to when a trusted proxy at 10.1.2.3 passes
// it on. Sent straight to us it must be charged to whoever sent it.
type forgery struct {
	Name   string
	Header string   // the configured one
	Lines  []string // of it
	Other  Fields   // further headers
	Key    string
}

func forgeries(t *testing.T) []forgery {
	t.Helper()
	var list []forgery
	lines := bufio.NewScanner(bytes.NewReader(readFile(t, "testdata/forged.jsonl")))
	for lines.Scan() {
		var f forgery
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		list = append(list, f)
	}
	return list
}

func (f *forgery) resolver(t *testing.T) *Resolver {
	t.Helper()
	return resolver(t, Config{ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.1.2.0/24")}, Header: f.Header}})
}

func (f *forgery) call(r *Resolver, peer string) *Call {
	fields := Fields{r.forwarding.header: f.Lines}
	for name, values := range f.Other {
		fields[name] = values
	}
	return &Call{Peer: netip.MustParseAddr(peer), Header: fields}
}

func resolver(t testing.TB, c Config) *Resolver {
	t.Helper()
	r, err := NewResolver(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func networkText(c Caller) string { return string(AppendNetwork(nil, c.Network)) }

func TestForgedForwarding(t *testing.T) {
	list := forgeries(t)
	if len(list) < 40 {
		t.Fatalf("%d forms; at least 40 are wanted", len(list))
	}
	for _, f := range list {
		r := f.resolver(t)
		if c := r.Locate(f.call(r, "10.1.2.3")); networkText(c) != f.Key || !c.Trusted {
			t.Errorf("%s: through a trusted proxy %s, want %s", f.Name, networkText(c), f.Key)
		}
		for peer, key := range map[string]string{
			"198.51.100.9":              "198.51.100.9",
			"::ffff:198.51.100.9":       "198.51.100.9",
			"2001:db8:9:9::9":           "2001:db8:9:9::/64",
			"10.1.3.1":                  "10.1.3.1",
			"::ffff:10.1.1.255":         "10.1.1.255",
			"fe80::10.1.2.3":            "fe80::/64",
			"2002:a01:203::1":           "2002:a01:203::/64",
			"64:ff9b::10.1.2.3":         "64:ff9b::a01:203/128",
			"::10.1.2.3":                "::/64",
			"2001:db8:9:9::9%weir-zone": "2001:db8:9:9::/64",
		} {
			if c := r.Locate(f.call(r, peer)); networkText(c) != key || c.Trusted {
				t.Errorf("%s: from %s itself %s, want %s", f.Name, peer, networkText(c), key)
			}
		}
	}
}

func TestUnixPeers(t *testing.T) {
	fields := Fields{"X-Forwarded-For": {"6.6.6.6, 203.0.113.7"}}
	for _, tt := range []struct {
		trust  bool
		header Header
		want   string
	}{
		{true, fields, "203.0.113.7"},
		{true, Fields{}, "invalid IP"},
		{true, nil, "invalid IP"},
		{true, Fields{"X-Forwarded-For": {"unknown"}}, "invalid IP"},
		{false, fields, "invalid IP"},
	} {
		r := resolver(t, Config{ClientIP: ClientIP{TrustUnix: tt.trust}})
		// What Peer holds on a unix socket is nobody's address.
		c := r.Locate(&Call{Unix: true, Peer: netip.MustParseAddr("192.0.2.1"), Header: tt.header})
		if c.IP.String() != tt.want || c.Trusted != tt.trust || c.Network.IsValid() != c.IP.IsValid() {
			t.Errorf("trust %v, %v: %+v, want %s", tt.trust, tt.header, c, tt.want)
		}
	}
}

func TestWalkIsBounded(t *testing.T) {
	r := (&forgery{}).resolver(t)
	hop := "10.1.2.4, "
	call := func(trustedHops int) *Call {
		return &Call{Peer: netip.MustParseAddr("10.1.2.3"), Header: Fields{"X-Forwarded-For": {"203.0.113.7, " + strings.Repeat(hop, trustedHops-1) + "10.1.2.9"}}}
	}
	if c := r.Locate(call(maxHops - 1)); c.IP.String() != "203.0.113.7" {
		t.Errorf("%d entries: %v", maxHops, c.IP)
	}
	if c := r.Locate(call(maxHops)); c.IP.String() != "10.1.2.4" {
		t.Errorf("%d entries: %v, want the last hop walked", maxHops+1, c.IP)
	}
	if c := r.Locate(call(100_000)); c.IP.String() != "10.1.2.4" {
		t.Errorf("many entries: %v", c.IP)
	}
}

func TestPrefixes(t *testing.T) {
	for _, tt := range []struct {
		v4, v6   int
		ip, want string
	}{
		{0, 0, "203.0.113.7", "203.0.113.7"},
		{32, 64, "203.0.113.7", "203.0.113.7"},
		{24, 64, "203.0.113.7", "203.0.113.0/24"},
		{0, 0, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{0, 56, "2001:db8:1:2ff:3::4", "2001:db8:1:200::/56"},
		{0, 48, "2001:db8:1:2::4", "2001:db8:1::/48"},
		{0, 128, "2001:db8::4", "2001:db8::4/128"},
		{0, 0, "64:ff9b::c000:201", "64:ff9b::c000:201/128"},
		{24, 0, "64:ff9b::c000:201", "64:ff9b::c000:200/120"},
		{0, 128, "64:ff9b::c000:201", "64:ff9b::c000:201/128"},
	} {
		r := resolver(t, Config{ClientIP: ClientIP{IPv4Prefix: tt.v4, IPv6Prefix: tt.v6}})
		if got := string(AppendNetwork(nil, r.NetworkOf(netip.MustParseAddr(tt.ip)))); got != tt.want {
			t.Errorf("%s by /%d and /%d: %s, want %s", tt.ip, tt.v4, tt.v6, got, tt.want)
		}
	}
}

// 2^20 addresses of one /64 are one caller, spelled in any way.
func TestOneSubscriberIsOneCaller(t *testing.T) {
	r := (&forgery{}).resolver(t)
	ip := [16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2}
	parts := []Part{part(t, "ip")}
	key := make([]byte, 0, 64)
	for i := range 1 << 20 {
		// The bits are spread over all eight bytes of the host.
		ip[8], ip[11], ip[15] = byte(i>>16)<<4, byte(i>>8), byte(i)
		c := r.Locate(&Call{Peer: netip.AddrFrom16(ip)})
		key, _ = AppendKey(key[:0], parts, &Source{Caller: &c}, false)
		if string(key) != "=17:2001:db8:1:2::/64" {
			t.Fatalf("%v: %s", netip.AddrFrom16(ip), key)
		}
	}
}

func TestDistrust(t *testing.T) {
	var heard []string
	r := resolver(t, Config{ClientIP: ClientIP{OnDistrust: func(d Distrust) { heard = append(heard, d.String()) }}})
	send := func(peer string, f Fields) { r.Locate(&Call{Peer: netip.MustParseAddr(peer), Header: f}) }
	send("192.0.2.7", Fields{})
	send("192.0.2.7", nil)
	if count, first := r.Distrusted(); count != 0 || first != nil {
		t.Fatalf("nothing sent: %d, %v", count, first)
	}
	spoof := Fields{"X-Forwarded-For": {"6.6.6.6"}}
	for range 3 {
		send("192.0.2.7", spoof)
		send("2001:db8::1", spoof)
		send("2001:db8::2", spoof) // of the same network
	}
	want := []string{
		"X-Forwarded-For from 192.0.2.7 is ignored: the peer is not in client_ip.trusted_proxies",
		"X-Forwarded-For from 2001:db8::/64 is ignored: the peer is not in client_ip.trusted_proxies",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q", heard)
	}
	r.Locate(&Call{Unix: true, Header: spoof})
	if heard[2] != "X-Forwarded-For from a unix socket is ignored: the peer is not in client_ip.trusted_proxies" {
		t.Errorf("heard %q", heard[2])
	}
	for i := range 1000 {
		send(netip.AddrFrom4([4]byte{100, 64, byte(i >> 8), byte(i)}).String(), spoof)
	}
	count, first := r.Distrusted()
	if count != 1010 || len(first) != maxDistrusted || len(heard) != maxDistrusted {
		t.Errorf("count %d, %d kept, %d heard", count, len(first), len(heard))
	}
	if !slices.IsSortedFunc(first, func(a, b Distrust) int { return a.Peer.Addr().Compare(b.Peer.Addr()) }) {
		t.Error("not in order")
	}
	trusted := (&forgery{}).resolver(t)
	trusted.Locate(&Call{Peer: netip.MustParseAddr("10.1.2.3"), Header: spoof})
	if count, _ := trusted.Distrusted(); count != 0 {
		t.Error("a trusted proxy is reported")
	}
}

func part(t testing.TB, s string) Part {
	t.Helper()
	p, err := ParsePart(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parts(t testing.TB, s string) []Part {
	t.Helper()
	var list []Part
	for _, name := range strings.Fields(s) {
		list = append(list, part(t, name))
	}
	return list
}
