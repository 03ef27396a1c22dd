package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/httplimit"
	"github.com/weirhq/weir/identity"
)

func keyed(key httplimit.Key, peer string, fields ...string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return key(r)
}

const xff = "X-Forwarded-For"

// The rows of the faults that others shipped, each through ByIP.
func TestByIP(t *testing.T) {
	proxies := httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/8"))
	for _, c := range []struct {
		name, peer string
		fields     []string
		want       string
	}{
		{"B205: the right-most untrusted, not the left-most", "10.0.0.1:99", []string{xff, "192.0.2.99, 203.0.113.7"}, "ip:203.0.113.7"},
		{"all lines are one list", "10.0.0.1:99", []string{xff, "192.0.2.99", xff, "203.0.113.7, 10.0.0.2"}, "ip:203.0.113.7"},
		{"B207: from a peer that is not trusted", "198.51.100.9:99", []string{xff, "192.0.2.99"}, "ip:198.51.100.9"},
		{"B209: nobody is locked out by another", "198.51.100.9:99", []string{xff, "198.51.100.20"}, "ip:198.51.100.9"},
		{"B211: an IPv6 /64 is one", "[2001:db8:1:2::1]:99", nil, "ip:2001:db8:1:2::/64"},
		{"B211: its other end", "[2001:db8:1:2:ffff:ffff:ffff:ffff]:99", nil, "ip:2001:db8:1:2::/64"},
		{"B213: a port in an entry", "10.0.0.1:99", []string{xff, "203.0.113.7:5678"}, "ip:203.0.113.7"},
		{"B213: brackets and a port", "10.0.0.1:99", []string{xff, "[2001:db8::1]:443"}, "ip:2001:db8::/64"},
		{"B213: brackets", "10.0.0.1:99", []string{xff, "[2001:db8::1]"}, "ip:2001:db8::/64"},
		{"B215: mapped, in hex", "[::ffff:c000:201]:99", nil, "ip:192.0.2.1"},
		{"B215: a dotted tail is no IPv4", "[2001:db8:1234:5678::192.0.2.1]:99", nil, "ip:2001:db8:1234:5678::/64"},
		{"B217: an embedded IPv4 is told apart", "[64:ff9b::c000:201]:99", nil, "ip:64:ff9b::c000:201/128"},
		{"B219: ports are no part of it", "192.0.2.1:1111", nil, "ip:192.0.2.1"},
		{"B219: ports are no part of it", "192.0.2.1:2222", nil, "ip:192.0.2.1"},
		{"no port", "192.0.2.1", nil, "ip:192.0.2.1"},
		{"garbage ends the walk at the last that was vouched for", "10.0.0.1:99", []string{xff, "203.0.113.7, unknown"}, "ip:10.0.0.1"},
		{"a unix socket has no address", "@", []string{xff, "203.0.113.7"}, ""},
		{"nor has nonsense", "nonsense", nil, ""},
	} {
		if got := keyed(proxies, c.peer, c.fields...); got != c.want {
			t.Errorf("%s: key %q, want %q", c.name, got, c.want)
		}
	}
	if got := keyed(httplimit.ByIP(netip.Prefix{}), "10.0.0.1:99", xff, "203.0.113.7"); got != "ip:10.0.0.1" {
		t.Errorf("an invalid prefix trusted a peer: key %q", got)
	}
}

func TestByClientIP(t *testing.T) {
	key, err := httplimit.ByClientIP(identity.ClientIP{Header: "X-Real-IP", TrustUnix: true, IPv6Prefix: 48})
	if err != nil {
		t.Fatal(err)
	}
	if got := keyed(key, "@", "X-Real-Ip", "2001:db8:1:2::3"); got != "ip:2001:db8:1::/48" {
		t.Errorf("key %q", got)
	}
	if _, err := httplimit.ByClientIP(identity.ClientIP{IPv4Prefix: 33}); err == nil {
		t.Error("a prefix of 33 bits was taken")
	}
}

func TestKeys(t *testing.T) {
	user := httplimit.By("user", func(r *http.Request) string { return r.Header.Get("X-User") })
	header := httplimit.ByHeader("x-api-key")
	for _, c := range []struct {
		name   string
		key    httplimit.Key
		fields []string
		want   string
	}{
		{"a header", header, []string{"X-Api-Key", "k"}, "header:X-Api-Key:k"},
		{"no header", header, nil, ""},
		{"an empty header", header, []string{"X-Api-Key", ""}, ""},
		{"a header twice", header, []string{"X-Api-Key", "k", "X-Api-Key", "k"}, ""},
		{"a header that looks like an address", header, []string{"X-Api-Key", "ip:192.0.2.1"}, "header:X-Api-Key:ip:192.0.2.1"},
		{"the host", httplimit.ByHeader("host"), nil, "header:Host:example.com"},
		{"by", user, []string{"X-User", "u"}, "user:u"},
		{"by nothing", user, nil, ""},
		{"everyone", httplimit.Everyone(), nil, "everyone"},
		{"first: the first", httplimit.First(header, user), []string{"X-Api-Key", "k", "X-User", "u"}, "header:X-Api-Key:k"},
		{"first: the second", httplimit.First(header, user), []string{"X-User", "u"}, "user:u"},
		{"first: none", httplimit.First(header, user), nil, ""},
		{"join", httplimit.Join(header, user), []string{"X-Api-Key", "k", "X-User", "u"}, "18:header:X-Api-Key:k6:user:u"},
		{"join lacks a part", httplimit.Join(header, user), []string{"X-Api-Key", "k"}, ""},
		{"no route outside of a mux", httplimit.ByRoute(), nil, ""},
	} {
		if got := keyed(c.key, peer, c.fields...); got != c.want {
			t.Errorf("%s: key %q, want %q", c.name, got, c.want)
		}
	}
}

// TestKindsAreApart: no value of one kind is a key of another.
func TestKindsAreApart(t *testing.T) {
	value := func(v string) func(*http.Request) string { return func(*http.Request) string { return v } }
	a, b, c := httplimit.By("user", value("trial:bob")), httplimit.By("user:trial", value("bob")), httplimit.By("user%3Atrial", value("bob"))
	if x, y, z := keyed(a, peer), keyed(b, peer), keyed(c, peer); x == y || y == z || x == z {
		t.Errorf("%q %q %q", x, y, z)
	}
}

// B229: parts that run together are different keys all the same.
func TestJoinIsUnambiguous(t *testing.T) {
	part := func(name string) httplimit.Key {
		return func(r *http.Request) string { return r.Header.Get(name) }
	}
	key := httplimit.Join(part("A"), part("B"))
	seen := map[string][2]string{}
	for _, parts := range [][2]string{
		{"user@example.co", "mtest"}, {"user@example.com", "test"}, {"1:a", "b"}, {"1", ":ab"}, {"a", "1:b"}, {"a1:", "b"}, {"ab", "c"}, {"a", "bc"},
	} {
		k := keyed(key, peer, "A", parts[0], "B", parts[1])
		if other, ok := seen[k]; ok {
			t.Errorf("%v and %v are both %q", parts, other, k)
		}
		seen[k] = parts
	}
}

func TestByRoute(t *testing.T) {
	var handler served
	limited := httplimit.Middleware(limiter(t, weir.Options{}), httplimit.Join(httplimit.ByIP(), httplimit.ByRoute()), limit(t, "1/366d"))(&handler)
	mux := http.NewServeMux()
	mux.Handle("GET /a/{id}", limited)
	mux.Handle("GET /b", limited)
	check := codes(t, 200, 429, 200)
	for _, path := range []string{"/a/1", "/a/2", "/b"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		check(w)
	}
}

// B221, B239, B241: a request without the key is charged to its address, apart
// from the requests of that address that have one, and apart from other
// addresses.
func TestMissingKeyFallsBackToTheAddress(t *testing.T) {
	trusted := httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/8"))
	var handler served
	l := limiter(t, weir.Options{})
	rules := []httplimit.Rule{{Key: httplimit.ByHeader("X-Id"), Limits: []weir.Limit{limit(t, "1/366d")}}}
	h := build(t, l, httplimit.Options{Rules: rules})(&handler)
	behind := build(t, l, httplimit.Options{Rules: rules, Address: trusted, Space: "behind"})(&handler)
	for _, c := range []struct {
		name   string
		h      http.Handler
		peer   string
		fields []string
		status int
	}{
		{"no key", h, "192.0.2.1:1", nil, 200},
		{"the same address again", h, "192.0.2.1:2", nil, 429},
		{"an empty key is none", h, "192.0.2.1:3", []string{"X-Id", ""}, 429},
		{"two keys are none", h, "192.0.2.1:3", []string{"X-Id", "a", "X-Id", "b"}, 429},
		{"another address", h, "192.0.2.2:1", nil, 200},
		{"a key from the first address", h, "192.0.2.1:1", []string{"X-Id", "a"}, 200},
		{"a key that imitates the fallback", h, "192.0.2.1:1", []string{"X-Id", "keyless:ip:192.0.2.2"}, 200},
		{"no key, no address", h, "@", nil, 200},
		{"no key, no address again", h, "@", nil, 429},
		{"behind a proxy", behind, "10.0.0.1:1", []string{xff, "192.0.2.1"}, 200},
		{"behind a proxy, another", behind, "10.0.0.1:1", []string{xff, "192.0.2.2"}, 200},
		{"behind a proxy, the first again", behind, "10.0.0.1:1", []string{xff, "192.0.2.1"}, 429},
	} {
		if w := get(c.h, c.peer, c.fields...); w.Code != c.status {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.status)
		}
	}
}

// B211: five requests from a /64, whichever addresses of it they come from.
func TestOneNetworkOneBalance(t *testing.T) {
	var handler served
	h := httplimit.Middleware(limiter(t, weir.Options{}), httplimit.ByIP(), limit(t, "5/366d"))(&handler)
	for n := range 1 << 10 {
		get(h, netip.AddrPortFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 8: byte(n >> 8), 15: byte(n)}), 80).String())
	}
	if handler != 5 {
		t.Errorf("%d requests of one /64 got through, want 5", handler)
	}
}
