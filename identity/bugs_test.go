package identity

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Faults that other limiters had, by their kind. Where a kind is shown at
// length elsewhere the comment says where.

// charged is the key text of a request under the given parts, with a network
// standing in for what is missing.
func charged(t *testing.T, r *Resolver, names string, call *Call) string {
	t.Helper()
	c := resolve(t, r, call)
	key, _ := AppendKey(nil, parts(t, names), &Source{Call: call, Caller: &c, Path: CleanPath(call.Path)}, true)
	return string(key)
}

func from(peer string, f Fields) *Call {
	ip, unix := ParsePeer(peer)
	return &Call{Peer: ip, Unix: unix, Header: f}
}

// The whole of testdata/forged.jsonl is of these kinds.
func TestBugsClientAddress(t *testing.T) {
	r := resolver(t, Config{ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.0.0.0/8")}}})
	xff := func(s string) Fields { return Fields{"X-Forwarded-For": {s}} }
	for _, tt := range []struct{ kind, peer, header, want string }{
		{"the left-most is believed", "10.0.0.1:80", "192.0.2.99, 203.0.113.7", "=11:203.0.113.7"},
		{"anybody is believed", "198.51.100.9:80", "192.0.2.99", "=12:198.51.100.9"},
		{"a victim is locked out", "198.51.100.9:80", "198.51.100.20", "=12:198.51.100.9"},
		{"a port in an entry", "10.0.0.1:80", "203.0.113.7:5678", "=11:203.0.113.7"},
		{"a port after brackets", "10.0.0.1:80", "[2001:db8::1]:443", "=13:2001:db8::/64"},
		{"brackets", "10.0.0.1:80", "[2001:db8::1]", "=13:2001:db8::/64"},
		{"addresses compared as text", "10.0.0.1:80", "::ffff:c000:201", "=9:192.0.2.1"},
		{"addresses compared as text, dotted", "10.0.0.1:80", "2001:db8:1234:5678::192.0.2.1", "=23:2001:db8:1234:5678::/64"},
		{"one translator is one caller", "10.0.0.1:80", "64:ff9b::c000:201", "=21:64:ff9b::c000:201/128"},
		{"one translator is one caller, another", "10.0.0.1:80", "64:ff9b::c000:202", "=21:64:ff9b::c000:202/128"},
		{"the peer's port is in the key", "192.0.2.1:1111", "", "=9:192.0.2.1"},
		{"the peer's port is in the key, another", "192.0.2.1:2222", "", "=9:192.0.2.1"},
		{"the peer in brackets", "[2001:db8::1]:443", "", "=13:2001:db8::/64"},
	} {
		var f Fields
		if tt.header != "" {
			f = xff(tt.header)
		}
		if got := charged(t, r, "ip", from(tt.peer, f)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.kind, got, tt.want)
		}
	}
	// IPv6 is counted per address: see also TestOneSubscriberIsOneCaller.
	for _, host := range []string{"1", "2", "ffff", "aaaa:bbbb:cccc:dddd"} {
		if got := charged(t, r, "ip", from("["+"2001:db8:1:2:"+strings.Repeat("0:", 3-strings.Count(host, ":"))+host+"]:1", nil)); got != "=17:2001:db8:1:2::/64" {
			t.Errorf("host %s: %s", host, got)
		}
	}
	// A missing identity switches the limit off: the address takes its place.
	if got := charged(t, r, "header:X-Id", from("192.0.2.1:1", nil)); got != "~9:192.0.2.1" {
		t.Errorf("without the header: %s", got)
	}
	// A rule by address decides for known users: a key by user has no address.
	users := resolver(t, Config{ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.0.0.0/8")}}, User: User{Header: "X-User"}})
	one := charged(t, users, "user", from("10.0.0.1:1", Fields{"X-User": {"alice"}, "X-Forwarded-For": {"192.0.2.1"}}))
	two := charged(t, users, "user", from("10.0.0.1:1", Fields{"X-User": {"alice"}, "X-Forwarded-For": {"192.0.2.2"}}))
	if one != "=5:alice" || one != two {
		t.Errorf("a user at two addresses: %s, %s", one, two)
	}
}

func TestBugsKeys(t *testing.T) {
	r := resolver(t, Config{User: User{Verifier: anyToken{}, TokenHeader: "X-Token", Alias: func(user string) string {
		if user == "ada@example.com" {
			return "ada"
		}
		return user
	}}})
	key := func(names string, call Call) string {
		t.Helper()
		if !call.Peer.IsValid() {
			call.Peer = netip.MustParseAddr("192.0.2.1")
		}
		return charged(t, r, names, &call)
	}
	// Percent-encoding has a bucket of its own: see also TestSpellingsCleanToOne.
	for _, path := range []string{"/login", "/%6Cogin", "/log%69n"} {
		if got := key("path", Call{Path: path}); got != "=6:/login" {
			t.Errorf("%s: %s", path, got)
		}
	}
	if key("path", Call{Path: "/a%2Fb"}) == key("path", Call{Path: "/a/b"}) {
		t.Error("%2F is taken for a slash")
	}
	// Parts run into each other: see also FuzzKey.
	joined := func(a, b string) string {
		return key("attr:a attr:b", Call{Attrs: map[string]string{"a": a, "b": b}})
	}
	if joined("user@example.co", "mtest") == joined("user@example.com", "test") {
		t.Error("two callers are one")
	}
	// Case and space make callers, when the service folds them.
	for _, mail := range []string{"User@example.com", " user@example.com", "USER@example.com"} {
		if got := key("fold:attr:mail", Call{Attrs: map[string]string{"mail": mail}}); got != "=16:user@example.com" {
			t.Errorf("%q: %s", mail, got)
		}
	}
	// Folding further than the service makes one caller of two.
	for _, names := range []string{"attr:a", "fold:attr:a"} {
		if key(names, Call{Attrs: map[string]string{"a": "Å"}}) == key(names, Call{Attrs: map[string]string{"a": "å"}}) {
			t.Errorf("%s folds more than ASCII", names)
		}
	}
	// A caller goes by two names in turn.
	if a, b := key("user", Call{Header: Fields{"X-Token": {"ada"}}}), key("user", Call{Header: Fields{"X-Token": {"ada@example.com"}}}); a != b || a != "=3:ada" {
		t.Errorf("two names: %s, %s", a, b)
	}
	// A caller makes up a part: the rule by address beside it holds, and what is
	// made up stays inside its part.
	agents := map[string]bool{}
	for i := range 100 {
		call := Call{Header: Fields{"User-Agent": {"agent\r\n" + strings.Repeat("=3:", i)}}}
		if got := key("ip", call); got != "=9:192.0.2.1" {
			t.Fatalf("agent %d: %s", i, got)
		}
		agents[key("ip header:User-Agent", call)] = true
	}
	for k := range agents {
		if read, ok := ReadKey(k); !ok || len(read) != 2 || read[0].Value != "192.0.2.1" {
			t.Errorf("%q reads as %+v", k, read)
		}
	}
	if !part(t, "header:User-Agent").CallerChosen() || part(t, "ip").CallerChosen() {
		t.Error("policy check could not warn")
	}
	// A variable that is missing, and a part that is empty, share one bucket.
	absent := key("header:X-Id", Call{Header: Fields{}})
	empty := key("header:X-Id", Call{Header: Fields{"X-Id": {""}}})
	other := key("header:X-Id", Call{Peer: netip.MustParseAddr("192.0.2.2"), Header: Fields{"X-Id": {""}}})
	if absent != "~9:192.0.2.1" || empty != absent || other == empty {
		t.Errorf("absent %s, empty %s, empty from elsewhere %s", absent, empty, other)
	}
}

// anyToken takes a token for the user it names.
type anyToken struct{}

func (anyToken) Verify(token string) (string, error) { return token, nil }

// PartNames hands out a copy.
func TestPartNamesAreACopy(t *testing.T) {
	PartNames()[0] = "x"
	if !slices.Equal(PartNames(), partNames) || partNames[0] != "ip" {
		t.Errorf("%q", partNames)
	}
}
