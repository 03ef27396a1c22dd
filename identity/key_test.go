package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// source is a request with everything in it.
func source() *Source {
	ip := netip.MustParseAddr("2001:db8:1:2::3")
	return &Source{
		Call: &Call{
			Method: "post", Host: "API.example.com:8443", Query: "a=1&b=two+words&c=%41&d=&e=1&e=1&f=%zz&%67=7",
			Header: Fields{
				"X-Account": {" acme "}, "X-Mail": {"  User@Example.com "}, "X-Twice": {"a", "b"}, "X-Blank": {" "}, "X-List": {"a, b"},
				"Cookie": {`sid=s1; quoted="q q"; twice=1; empty=; spaced = v`, "twice=2; late=l"},
			},
			Attrs: map[string]string{"account": "a1", "blank": ""},
		},
		Caller: &Caller{IP: ip, Network: NetworkOf(ip, 32, 64), APIKey: "00ff", Tenant: "acme", Plan: "pro", User: "alice"},
		Path:   "/login", Route: "/{login}",
	}
}

func TestParts(t *testing.T) {
	for name, want := range map[string]string{
		"ip": "2001:db8:1:2::/64", "ip/48": "2001:db8:1::/48", "api_key": "00ff", "tenant": "acme", "plan": "pro", "user": "alice",
		"path": "/login", "route": "/{login}", "method": "POST", "host": "api.example.com", "all": "all",
		"header:x-account": "acme", "header:X-List": "a, b", "header:X-Twice": "", "header:X-Blank": "", "header:X-Absent": "",
		"header:X-Mail": "User@Example.com", "fold:header:x-mail": "user@example.com", "fold:user": "alice",
		"cookie:sid": "s1", "cookie:quoted": "q q", "cookie:late": "l", "cookie:twice": "", "cookie:empty": "", "cookie:spaced": "v", "cookie:SID": "",
		"query:a": "1", "query:b": "two words", "query:c": "A", "query:d": "", "query:e": "", "query:f": "", "query:g": "7", "query:A": "",
		"attr:account": "a1", "attr:blank": "", "attr:absent": "",
	} {
		p := part(t, name)
		got, ok := p.appendValue(nil, source())
		if string(got) != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, ok, want)
		}
		if again := part(t, p.String()); again != p {
			t.Errorf("%s is written %s, which reads as %+v", name, p, again)
		}
	}
	nothing := &Source{Call: &Call{}, Caller: &Caller{}}
	for _, name := range partNames {
		if strings.HasSuffix(name, ":") {
			name += "x"
		}
		if v, ok := part(t, name).appendValue(nil, nothing); ok != (name == "all") {
			t.Errorf("%s of nothing: %q", name, v)
		}
	}
	v4 := &Source{Caller: &Caller{IP: netip.MustParseAddr("192.0.2.1"), Network: netip.MustParsePrefix("192.0.2.0/24")}}
	if v, _ := part(t, "ip/48").appendValue(nil, v4); string(v) != "192.0.2.0/24" {
		t.Errorf("ip/48 of an IPv4 caller: %s", v)
	}
}

func TestBadParts(t *testing.T) {
	for name, want := range map[string]string{
		"":             `key: "" is no key part; there are ip, api_key, tenant, plan, user, path, route, method, host, all, header:NAME, cookie:NAME, query:NAME and attr:NAME`,
		"IP":           `"IP" is no key part`,
		"header":       `"header" is no key part`,
		"header:":      `"header:" needs a name of letters, digits and dashes`,
		"header:a b":   `"header:a b" needs a name`,
		"header:a:b":   `"header:a:b" needs a name`,
		"header:host":  `"header:host" is never there: net/http takes Host out of the header; the part is called host`,
		"cookie:a;b":   `"cookie:a;b" needs a name`,
		"query:":       `"query:" needs a name after the colon`,
		"attr:":        `"attr:" needs a name after the colon`,
		"tenant:acme":  `"tenant:acme" is no key part`,
		"ip/0":         `"ip/0" takes an IPv6 prefix of 1 to 128 bits`,
		"ip/129":       `"ip/129" takes an IPv6 prefix`,
		"ip/048":       `"ip/048" takes an IPv6 prefix`,
		"ip/":          `"ip/" takes an IPv6 prefix`,
		"fold:":        `"fold:" is no key part`,
		"fold:fold:ip": `"fold:fold:ip" is no key part`,
	} {
		_, err := ParsePart(name)
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Field != "key" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCallerChosen(t *testing.T) {
	for _, name := range strings.Fields("path method host header:x cookie:x query:x fold:header:x") {
		if !part(t, name).CallerChosen() {
			t.Errorf("%s cannot be chosen", name)
		}
	}
	for _, name := range strings.Fields("ip ip/48 api_key tenant plan user route all attr:x") {
		if part(t, name).CallerChosen() {
			t.Errorf("%s can be chosen", name)
		}
	}
}

func TestAppendKey(t *testing.T) {
	long, broken := strings.Repeat("x", maxValue+1), "\xff"
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "#64:" + hex.EncodeToString(sum[:])
	}
	s := source()
	s.Call.Header = Fields{"Long": {long}, "Broken": {broken}, "Fits": {long[1:]}}
	for _, tt := range []struct {
		parts, want string
		missing     int
		fallback    string
	}{
		{"tenant", "=4:acme", -1, ""},
		{"ip route", "=17:2001:db8:1:2::/64=8:/{login}", -1, ""},
		{"all", "=3:all", -1, ""},
		{"header:long", hash(long), -1, ""},
		{"header:broken", hash(broken), -1, ""},
		{"header:fits", "=96:" + long[1:], -1, ""},
		{"tenant header:x", "", 1, "=4:acme~17:2001:db8:1:2::/64"},
		{"cookie:x tenant query:x", "", 0, "~17:2001:db8:1:2::/64=4:acme~17:2001:db8:1:2::/64"},
	} {
		list := parts(t, tt.parts)
		got, missing := AppendKey([]byte("before"), list, s, false)
		if string(got) != "before"+tt.want || missing != tt.missing {
			t.Errorf("%s: %q, missing %d; want %q, %d", tt.parts, got, missing, tt.want, tt.missing)
		}
		want := tt.fallback
		if missing < 0 {
			want = tt.want
		}
		got, again := AppendKey([]byte("before"), list, s, true)
		if string(got) != "before"+want || again != tt.missing {
			t.Errorf("%s, standing in: %q, missing %d; want %q", tt.parts, got, again, want)
		}
	}
	s.Caller = &Caller{}
	if got, missing := AppendKey(nil, parts(t, "ip tenant"), s, true); string(got) != "-0:-0:" || missing != 0 {
		t.Errorf("nobody from nowhere: %q, %d", got, missing)
	}
}

// A value that a caller makes up never reaches the balance of those without one.
func TestStandInsAreOfTheirOwnKind(t *testing.T) {
	s := source()
	s.Caller.User = ""
	want, _ := AppendKey(nil, parts(t, "user"), s, true)
	for _, user := range []string{"2001:db8:1:2::/64", string(want), "~17:2001:db8:1:2::/64", "17:2001:db8:1:2::/64", "-0:"} {
		s.Caller.User = user
		if got, _ := AppendKey(nil, parts(t, "user"), s, true); string(got) == string(want) {
			t.Errorf("user %q is charged as %q", user, got)
		}
	}
}

func TestKeysCostNothing(t *testing.T) {
	room := make([]byte, 0, 512)
	s := source()
	s.Call.Query = "b=2&a=1"
	list := parts(t, "ip tenant plan user route method host header:X-Account cookie:sid query:a attr:account header:X-Absent")
	if n := testing.AllocsPerRun(100, func() { AppendKey(room, list[:6], s, true); AppendKey(room, list[7:], s, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendGiven(t *testing.T) {
	network := func(ip netip.Addr) netip.Prefix { return NetworkOf(ip, 32, 64) }
	type given map[string]string
	for _, tt := range []struct {
		parts     string
		given     given
		want, err string
	}{
		{"tenant", given{"tenant": "acme"}, "=4:acme", ""},
		{"ip route", given{"ip": "2001:db8:1:2::9", "route": "/login"}, "=17:2001:db8:1:2::/64=6:/login", ""},
		{"ip", given{"ip": "::ffff:192.0.2.1"}, "=9:192.0.2.1", ""},
		{"ip", given{"ip": "2001:db8:1:2::/64"}, "=17:2001:db8:1:2::/64", ""},
		{"ip", given{"ip": "2001:db8:1:2::9/64"}, "=17:2001:db8:1:2::/64", ""},
		{"ip", given{"ip": "2001:db8::/48"}, "", `parts.ip: "2001:db8::/48" is not how callers are told apart here; that would be 2001:db8::/64`},
		{"ip", given{"ip": "192.0.2.0/24"}, "", `parts.ip: "192.0.2.0/24" is not how callers are told apart here; that would be 192.0.2.0/32`},
		{"ip", given{"ip": "192.0.2.1/32"}, "=9:192.0.2.1", ""},
		{"ip/48", given{"ip/48": "2001:db8:1::/48"}, "=15:2001:db8:1::/48", ""},
		{"ip/48", given{"ip/48": "2001:db8:1:2::/64"}, "", `parts.ip/48: "2001:db8:1:2::/64" is not how callers are told apart here; that would be 2001:db8:1::/48`},
		{"ip/48", given{"ip/48": "2001:db8:1:2::9"}, "=15:2001:db8:1::/48", ""},
		{"ip/48", given{"ip/48": "192.0.2.1"}, "=9:192.0.2.1", ""},
		{"path host method", given{"path": "//a/./b/", "host": "X.Example:80", "method": "get"}, "=4:/a/b=9:x.example=3:GET", ""},
		{"fold:user", given{"fold:user": " A@b "}, "=3:a@b", ""},
		{"all", given{}, "=3:all", ""},
		{"all", given{"all": "all"}, "=3:all", ""},
		{"tenant", given{"tenant": NoValue, "ip": "192.0.2.1"}, "~9:192.0.2.1", ""},
		{"ip tenant", given{"tenant": NoValue, "ip": "192.0.2.1"}, "=9:192.0.2.1~9:192.0.2.1", ""},
		{"tenant", given{"ip": "192.0.2.1"}, "", "parts.tenant: is missing; the key of this rule has it"},
		{"ip route", given{"ip": "192.0.2.1"}, "", "parts.route: is missing; the key of this rule has it"},
		{"tenant", given{"tenant": NoValue}, "", "parts.ip: is missing; callers without tenant share a balance with their network"},
		{"ip", given{"ip": NoValue}, "", "parts.ip: cannot be without a value"},
		{"tenant", given{}, "", "parts.tenant: is missing; the key of this rule has it"},
		{"tenant", given{"tenant": ""}, "", "parts.tenant: is empty"},
		{"tenant", given{"tenant": "a", "ip": "192.0.2.1"}, "", "parts.ip: is not in the key of this rule"},
		{"tenant", given{"tenant": "a", "user": "b"}, "", "parts.user: is not in the key of this rule"},
		{"ip", given{"ip": "here"}, "", `parts.ip: "here" is neither an address nor a range`},
	} {
		got, err := AppendGiven([]byte("before"), parts(t, tt.parts), tt.given, network)
		if string(got) != "before"+tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s %v: %q, %v; want %q, %s", tt.parts, tt.given, got, err, tt.want, tt.err)
		}
	}
	// What is spelled out is what a request would be charged to.
	s := source()
	list := parts(t, "ip api_key tenant plan user route path")
	asked, _ := AppendKey(nil, list, s, false)
	spelled, err := AppendGiven(nil, list, given{"ip": s.Caller.IP.String(), "api_key": "00ff", "tenant": "acme", "plan": "pro", "user": "alice", "route": "/{login}", "path": "/login/"}, network)
	if err != nil || string(asked) != string(spelled) {
		t.Errorf("%q, %q, %v", asked, spelled, err)
	}
}

// Keys of the same number of parts are equal only if the parts are: what was
// joined comes apart again.
func FuzzKey(f *testing.F) {
	f.Add("user@example.co", "mtest", "")
	f.Add("=1:a", "#64:", "~")
	f.Add("\xff", strings.Repeat("a", 200), "-0:")
	f.Add("a\r\nb", "", "=")
	f.Fuzz(func(t *testing.T, tenant, user, attr string) {
		s := source()
		s.Caller.Tenant, s.Caller.User, s.Call.Attrs = tenant, user, map[string]string{"a": attr}
		key, missing := AppendKey(nil, parts(t, "tenant user attr:a"), s, true)
		if !utf8.Valid(key) {
			t.Fatalf("%q is not UTF-8", key)
		}
		read, ok := ReadKey(string(key))
		if !ok || len(read) != 3 {
			t.Fatalf("%q reads as %+v", key, read)
		}
		first := -1
		for i, value := range []string{tenant, user, attr} {
			want := KeyPart{Value: value}
			switch {
			case value == "":
				want = KeyPart{Value: "2001:db8:1:2::/64", StandIn: true}
				if first < 0 {
					first = i
				}
			case len(value) > maxValue || !utf8.ValidString(value):
				sum := sha256.Sum256([]byte(value))
				want = KeyPart{Value: hex.EncodeToString(sum[:]), Hashed: true}
			}
			if !reflect.DeepEqual(read[i], want) {
				t.Errorf("part %d of %q: %+v, want %+v", i, key, read[i], want)
			}
		}
		if missing != first {
			t.Errorf("missing %d, want %d", missing, first)
		}
	})
}

func TestReadKeyRefuses(t *testing.T) {
	for _, key := range []string{"", "acme", "=", "=:", "=1:", "=01:a", "=+1:a", "=-1:a", "=2:a", "=1:ab", "?1:a", "=1:a=", "=9223372036854775808:a"} {
		if parts, ok := ReadKey(key); ok {
			t.Errorf("%q reads as %+v", key, parts)
		}
	}
}

// TestQueryReadInTwoWays: many servers take ; for &, some tell no letters of names
// apart or end a name at a bracket. A caller that can show us one value and the server
// another chooses which balance is charged.
func TestQueryReadInTwoWays(t *testing.T) {
	for query, want := range map[string]string{
		"account=a":                          "a",
		"x=1;y=2&account=a":                  "a",
		"account=a&x=1;y=2":                  "a",
		"account=a%3Bb":                      "a;b",
		"my.account=b&account=a":             "a",
		"account=victim;x=1":                 "",
		"account=;x=1":                       "",
		"x=1;account=victim":                 "victim",
		"account=decoy&x=1;account=v":        "",
		"account=decoy&ACCOUNT=victim":       "",
		"account=decoy&account[]=victim":     "",
		"account=decoy&account%5B%5D=victim": "",
		"account=decoy&%20account=victim":    "",
		"account=decoy&+account=victim":      "",
		"account=decoy&account%00x=victim":   "",
		"account=decoy&account[x]":           "",
		"acc%zz=1&account=a":                 "a",
	} {
		if got := queryValue(query, "account"); got != want {
			t.Errorf("%s: %q, not %q", query, got, want)
		}
	}
}
