package identity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// clientIPVector is one line of client_ip.jsonl, collected from other
// limiters. Not all of them follow the contract.
type clientIPVector struct {
	ID       string
	Kind     string
	Name     string
	Strategy string
	Headers  Fields
	Remote   string `json:"remote_addr"`
	Header   *string
	Ranges   []string `json:"trusted_ranges"`
	Trusted  []string
	Input    json.RawMessage
	IPStr    string
	Want     json.RawMessage
	Expect   json.RawMessage
	Zone     string
	Prefix6  *int
	Error    bool
	Args     struct{ Headers Fields }
}

// Fields is a Header for tests.
type Fields map[string][]string

func (f Fields) Values(name string) []string { return f[name] }

// otherwise lists the vectors that say something else than the contract, each
// with what the contract says. The contract stands.
var otherwise = map[string]string{
	"ip-033": "the header has a default, X-Forwarded-For",
	"ip-063": "garbage stops the walk instead of being skipped",
	"ip-067": "an untrusted peer is the client; no header is asked for",
	"ip-069": "the header has a default, X-Forwarded-For",
	"ip-103": "a peer that cannot be read is trusted by nobody",
	"ip-105": "all trusted: the left-most is the client",
	"ip-107": "garbage stops the walk at the last trusted hop",
	"ip-109": "the header has a default, X-Forwarded-For",
	"ip-115": "an IPv4 address has no zone, not even an empty one",
	"ip-121": "the unspecified address is nobody's",
	"ip-125": "an IPv4 address has no zone, not even an empty one",
	"ip-177": "a comma in quotes is not between two elements (RFC 7239)",
	"ip-179": "a name that is no token is garbage",
	"ip-187": "what is not an address has no network",
	"ip-197": "::1.2.3.4 stays IPv6",
	"ip-207": "::1.2.3.4 stays IPv6",
	"ip-215": "garbage stops the walk instead of being skipped",
	"ip-221": "garbage stops the walk at the last trusted hop",
	"ip-227": "garbage stops the walk instead of being skipped",
	"ip-213": "an untrusted peer is the client",
	"ip-225": "an untrusted peer is the client",
}

// notOurs are strategies the contract does not have.
var notOurs = map[string]bool{
	"leftmost_non_private":    true, // whatever the client writes
	"rightmost_trusted_count": true,
	"is_private":              true,
	"TestChainStrategy":       true, // one header, never two
}

var private = []string{"127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"}

func TestClientIPVectors(t *testing.T) {
	own := readFile(t, "testdata/client_ip.jsonl")
	if shared, err := os.ReadFile("../../shared/vectors/client_ip.jsonl"); err == nil && !bytes.Equal(own, shared) {
		t.Error("testdata/client_ip.jsonl is not the shared file any more")
	}
	ran, differing := 0, 0
	lines := bufio.NewScanner(bytes.NewReader(own))
	for lines.Scan() {
		var v clientIPVector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if notOurs[v.Strategy] || notOurs[v.Kind] {
			continue
		}
		ran++
		got, want := v.run(t)
		why := otherwise[v.ID]
		if (got == want) != (why == "") {
			t.Errorf("%s %s %q: got %q, want %q, listed as differing: %q", v.ID, v.Kind, v.Name, got, want, why)
		}
		if why != "" {
			differing++
		}
	}
	t.Logf("%d vectors, of which %d differ from the contract as listed", ran, differing)
	if ran < 80 {
		t.Errorf("only %d vectors ran", ran)
	}
}

// run returns what comes out and what the vector expects, as text; nothing is "".
func (v *clientIPVector) run(t *testing.T) (got, want string) {
	t.Helper()
	text := func(raw json.RawMessage) string {
		var s string
		if raw != nil {
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatalf("%s: %v", v.ID, err)
			}
		}
		return s
	}
	switch v.Kind {
	case "client_ip", "client_ip_rails":
		return v.resolve(t), withoutZone(text(v.Expect))
	case "cidr_list":
		var in, out []string
		if json.Unmarshal(v.Input, &in) != nil || v.Expect != nil && json.Unmarshal(v.Expect, &out) != nil {
			t.Fatal(v.ID)
		}
		want = strings.Join(out, " ")
		if v.Error {
			want = "error"
		}
		var list []string
		for _, s := range in {
			p, err := ParsePrefix(s)
			if err != nil {
				return "error", want
			}
			list = append(list, p.String())
		}
		return strings.Join(list, " "), want
	case "parse_ip":
		if ip, ok := parseNode(text(v.Input)); ok {
			got = ip.String()
		}
		return got, text(v.Expect)
	case "Test_goodIPAddr":
		if ip, ok := parseNode(v.IPStr); ok {
			got = ip.String()
		}
		var good *struct{ IP, Zone string }
		if err := json.Unmarshal(v.Want, &good); err != nil {
			t.Fatal(err)
		}
		if good != nil {
			want = good.IP
		}
		return got, want
	case "forwarded_item":
		if _, ip, ok, _ := cutLastForwarded(text(v.Input)); ok {
			got = ip.String()
		}
		return got, text(v.Expect)
	case "forwarded_deviation":
		var all []string
		rest, more := v.Args.Headers["Forwarded"][0], true
		for more {
			var ip netip.Addr
			var ok bool
			one := ""
			if rest, ip, ok, more = cutLastForwarded(rest); ok {
				one = ip.String()
			}
			all = append([]string{one}, all...)
		}
		var good []*struct{ IP string }
		if err := json.Unmarshal(v.Want, &good); err != nil {
			t.Fatal(err)
		}
		var expected []string
		for _, g := range good {
			one := ""
			if g != nil {
				one = g.IP
			}
			expected = append(expected, one)
		}
		return strings.Join(all, " "), strings.Join(expected, " ")
	case "ip_key":
		bits := 128
		if v.Prefix6 != nil {
			bits = *v.Prefix6
		}
		ip, _ := parseNode(text(v.Input))
		want := text(v.Expect)
		if p, err := ParsePrefix(want); err == nil {
			if !strings.Contains(want, "/") && p.Addr().Is6() {
				p = netip.PrefixFrom(p.Addr(), bits)
			}
			want = string(AppendNetwork(nil, p))
		}
		if n := NetworkOf(ip, 32, bits); n.IsValid() {
			got = string(AppendNetwork(nil, n))
		}
		return got, want
	}
	t.Fatalf("%s: unknown kind %q", v.ID, v.Kind)
	return "", ""
}

func (v *clientIPVector) resolve(t *testing.T) string {
	t.Helper()
	c := Config{ClientIP: ClientIP{TrustUnix: true}}
	ranges := v.Ranges
	if v.Strategy == "rightmost_non_private" {
		ranges = append(private, "fe80::/10")
	}
	if v.Kind == "client_ip_rails" {
		for _, s := range v.Trusted {
			if s == "private and loopback ranges" {
				ranges = append(ranges, private...)
			} else {
				ranges = append(ranges, s)
			}
		}
	}
	for _, s := range ranges {
		c.ClientIP.TrustedProxies = append(c.ClientIP.TrustedProxies, prefix(t, s))
	}
	if v.Header != nil {
		c.ClientIP.Header = *v.Header
	}
	call := Call{Header: v.Headers}
	if call.Peer, call.Unix = ParsePeer(v.Remote); v.Strategy == "remote_addr" {
		call.Header, call.Unix = nil, false
	}
	r, err := NewResolver(c)
	if err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	if caller := r.Locate(&call); caller.IP.IsValid() {
		return caller.IP.String()
	}
	return ""
}

// withoutZone also brings the address to its usual text.
func withoutZone(s string) string {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.WithZone("").String()
	}
	return s
}

func prefix(t *testing.T, s string) netip.Prefix {
	t.Helper()
	p, err := ParsePrefix(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
