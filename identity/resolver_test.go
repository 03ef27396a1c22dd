package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestListedKeys(t *testing.T) {
	r := resolver(t, Config{
		APIKeys: APIKeys{Header: "x-api-key", Keys: map[string]KeyRecord{
			"k-acme":                   {Tenant: "acme"},
			"sha256:" + idOf("k-beta"): {Tenant: "beta", Plan: "own"},
			"sha256:" + strings.ToUpper(idOf("k-caps")): {Tenant: "beta"},
			"k-off":  {Tenant: "acme", Disabled: true},
			"k-bare": {},
		}},
		Tenants: map[string]TenantRecord{"acme": {Plan: "pro", Limits: map[string]string{"r": "1/s"}}, "beta": {Plan: "free"}},
	})
	for _, tt := range []struct {
		values             []string
		state              KeyState
		tenant, plan, word string
	}{
		{[]string{"k-acme"}, KeyKnown, "acme", "pro", "known"},
		{[]string{" k-acme "}, KeyKnown, "acme", "pro", "known"},
		{[]string{"k-beta"}, KeyKnown, "beta", "own", "known"},
		{[]string{"k-caps"}, KeyKnown, "beta", "free", "known"},
		{[]string{"k-off"}, KeyDisabled, "acme", "pro", "disabled"},
		{[]string{"k-bare"}, KeyKnown, "", "", "known"},
		{[]string{"K-ACME"}, KeyUnknown, "", "", "unknown"},
		{[]string{idOf("k-acme")}, KeyUnknown, "", "", "unknown"},
		{[]string{"sha256:" + idOf("k-beta")}, KeyUnknown, "", "", "unknown"},
		{[]string{strings.Repeat("x", maxKeyBytes+1)}, KeyUnknown, "", "", "unknown"},
		{[]string{"k-acme", "k-beta"}, KeyAbsent, "", "", "absent"},
		{[]string{"k-acme", "k-acme"}, KeyAbsent, "", "", "absent"},
		{[]string{""}, KeyAbsent, "", "", "absent"},
		{nil, KeyAbsent, "", "", "absent"},
	} {
		c := resolve(t, r, &Call{Header: Fields{"X-Api-Key": tt.values}})
		if c.Key != tt.state || c.Tenant != tt.tenant || c.Plan != tt.plan || c.Key.String() != tt.word {
			t.Errorf("%.40q: %+v, want %v %q %q", tt.values, c, tt.state, tt.tenant, tt.plan)
		}
		inForce := tt.state == KeyKnown || tt.state == KeyDisabled
		if (c.APIKey != "") != inForce || inForce && c.APIKey != idOf(strings.TrimSpace(tt.values[0])) {
			t.Errorf("%.40q: id %q", tt.values, c.APIKey)
		}
	}
	if c := resolve(t, r, &Call{}); c.Key != KeyAbsent {
		t.Errorf("no header at all: %+v", c)
	}
}

func TestBearerKeys(t *testing.T) {
	r := resolver(t, Config{APIKeys: APIKeys{Header: "Authorization", Keys: map[string]KeyRecord{"k": {}}}})
	for value, want := range map[string]KeyState{
		"Bearer k": KeyKnown, "bearer k": KeyKnown, "BEARER   k ": KeyKnown,
		"k": KeyAbsent, "Basic k": KeyAbsent, "Bearer": KeyAbsent, "Bearer ": KeyAbsent, "Bearerk": KeyAbsent, "Bearer k k": KeyUnknown,
	} {
		if c := resolve(t, r, &Call{Header: Fields{"Authorization": {value}}}); c.Key != want {
			t.Errorf("%q: %v, want %v", value, c.Key, want)
		}
	}
}

// The plan of the key in the directory, of the tenant there, of the key in the
// file, of the tenant in the file.
func TestPlanOrder(t *testing.T) {
	plan := []string{"key in directory", "tenant in directory", "key in file", "tenant in file"}
	for set := range 1 << len(plan) {
		given := func(i int) string {
			if set&(1<<i) != 0 {
				return plan[i]
			}
			return ""
		}
		d := &ledger{keys: map[string]KeyRecord{"k": {Plan: given(0)}}, tenants: map[string]TenantRecord{"acme": {Plan: given(1)}}}
		r := resolver(t, Config{
			APIKeys: APIKeys{Header: "X-API-Key", Keys: map[string]KeyRecord{"k": {Tenant: "acme", Plan: given(2)}}, Lookups: lookups(t, d, LookupOptions{})},
			Tenants: map[string]TenantRecord{"acme": {Plan: given(3)}},
		})
		want := ""
		for i := len(plan) - 1; i >= 0; i-- {
			if given(i) != "" {
				want = plan[i]
			}
		}
		if c := resolve(t, r, withKey("k")); c.Plan != want {
			t.Errorf("set %04b: %q, want %q", set, c.Plan, want)
		}
	}
	d := &ledger{keys: map[string]KeyRecord{"k": {Tenant: "moved", Disabled: true}}}
	r := resolver(t, Config{APIKeys: APIKeys{Header: "X-API-Key", Keys: map[string]KeyRecord{"k": {Tenant: "acme"}}, Lookups: lookups(t, d, LookupOptions{})}})
	if c := resolve(t, r, withKey("k")); c.Tenant != "moved" || !c.Disabled() {
		t.Errorf("the directory over the file: %+v", c)
	}
}

// verifier accepts one token.
type verifier struct{ token, user string }

func (v verifier) Verify(token string) (string, error) {
	if token != v.token {
		return "", errors.New("not mine")
	}
	return v.user, nil
}

func TestUsers(t *testing.T) {
	proxies := ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.1.2.0/24")}}
	byHeader := User{Header: "x-user"}
	both := User{Header: "X-User", Verifier: verifier{"t", "by token"}}
	for name, tt := range map[string]struct {
		user User
		peer string
		f    Fields
		want string
	}{
		"header from a trusted peer":          {byHeader, "10.1.2.3", Fields{"X-User": {"alice"}}, "alice"},
		"header from anybody":                 {byHeader, "192.0.2.1", Fields{"X-User": {"alice"}}, ""},
		"header twice":                        {byHeader, "10.1.2.3", Fields{"X-User": {"alice", "bob"}}, ""},
		"no header":                           {byHeader, "10.1.2.3", Fields{}, ""},
		"not configured":                      {User{}, "10.1.2.3", Fields{"X-User": {"alice"}}, ""},
		"token":                               {both, "192.0.2.1", Fields{"Authorization": {"Bearer t"}}, "by token"},
		"token over header":                   {both, "10.1.2.3", Fields{"Authorization": {"Bearer t"}, "X-User": {"alice"}}, "by token"},
		"bad token, header of a trusted peer": {both, "10.1.2.3", Fields{"Authorization": {"Bearer x"}, "X-User": {"alice"}}, "alice"},
		"bad token":                           {both, "192.0.2.1", Fields{"Authorization": {"Bearer x"}, "X-User": {"alice"}}, ""},
		"token that names nobody":             {User{Verifier: verifier{"t", ""}}, "192.0.2.1", Fields{"Authorization": {"Bearer t"}}, ""},
		"token elsewhere":                     {User{Verifier: verifier{"t", "u"}, TokenHeader: "x-token"}, "192.0.2.1", Fields{"X-Token": {"t"}}, "u"},
		"token twice":                         {both, "192.0.2.1", Fields{"Authorization": {"Bearer t", "Bearer t"}}, ""},
	} {
		r := resolver(t, Config{ClientIP: proxies, User: tt.user})
		if c := resolve(t, r, &Call{Peer: netip.MustParseAddr(tt.peer), Header: tt.f}); c.User != tt.want {
			t.Errorf("%s: %q, want %q", name, c.User, tt.want)
		}
	}
	r := resolver(t, Config{User: byHeader})
	resolve(t, r, &Call{Peer: netip.MustParseAddr("192.0.2.1"), Header: Fields{"X-User": {"alice"}}})
	if _, first := r.Distrusted(); len(first) != 1 || first[0].Header != "X-User" {
		t.Errorf("a user from anybody is not reported: %v", first)
	}
}

// A verified token in Authorization is not looked up as an API key too, and
// what is not a token still is.
func TestTokensAndKeysInOneHeader(t *testing.T) {
	d := &ledger{keys: map[string]KeyRecord{"k": {}}}
	r := resolver(t, Config{
		APIKeys: APIKeys{Header: "Authorization", Lookups: lookups(t, d, LookupOptions{})},
		User:    User{Verifier: verifier{"t", "alice"}},
	})
	if c := resolve(t, r, &Call{Header: Fields{"Authorization": {"Bearer t"}}}); c.User != "alice" || c.Key != KeyAbsent || d.questions() != 0 {
		t.Errorf("token: %+v, %d questions", c, d.questions())
	}
	if c := resolve(t, r, &Call{Header: Fields{"Authorization": {"Bearer k"}}}); c.User != "" || !c.Known() {
		t.Errorf("key: %+v", c)
	}
}

func TestBadConfig(t *testing.T) {
	keys := func(list ...string) APIKeys {
		m := make(map[string]KeyRecord)
		for _, k := range list {
			m[k] = KeyRecord{}
		}
		return APIKeys{Header: "X-API-Key", Keys: m}
	}
	for want, c := range map[string]Config{
		"client_ip.ipv4_prefix: 33 is not within 1 to 32":                                      {ClientIP: ClientIP{IPv4Prefix: 33}},
		"client_ip.ipv6_prefix: -1 is not within 1 to 128":                                     {ClientIP: ClientIP{IPv6Prefix: -1}},
		"client_ip.trusted_proxies[1]: is not an address or a range":                           {ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.0.0.0/8"), {}}}},
		`client_ip.header: "X-Forwarded-For, Forwarded" is not a header name; write one, such`: {ClientIP: ClientIP{Header: "X-Forwarded-For, Forwarded"}},
		"api_keys.header: is missing":                                                          {APIKeys: APIKeys{Keys: map[string]KeyRecord{"k": {}}}},
		`api_keys.header: "X API Key" is not a header name`:                                    {APIKeys: APIKeys{Header: "X API Key"}},
		`api_keys.header: Host says where a request goes, and not who sends it`:                {APIKeys: APIKeys{Header: "host"}},
		`user.header: "a b" is not a header name`:                                              {User: User{Header: "a b"}},
		`user.token_header: ":" is not a header name`:                                          {User: User{TokenHeader: ":", Verifier: verifier{}}},
		"api_keys.keys: a key is empty":                                                        {APIKeys: keys("")},
		"api_keys.keys: sha256: takes 64 hex digits, as sha256sum prints them; a key has 6":    {APIKeys: keys("sha256:secret")},
		"api_keys.keys: a key begins or ends with white space":                                 {APIKeys: keys(" secret")},
		"api_keys.keys: a key is longer than 512 bytes":                                        {APIKeys: keys(strings.Repeat("secret", 100))},
		"api_keys.keys: a key is given twice, by itself and by its hash":                       {APIKeys: keys("secret", "sha256:"+idOf("secret"))},
	} {
		_, err := NewResolver(c)
		var bad *ConfigError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestReadKeys(t *testing.T) {
	hash := "sha256:" + idOf("k-3")
	keys, err := ReadKeys(strings.NewReader("# ours\n\nk-1 tenant=acme\r\n  k-2\tplan=pro tenant=beta   disabled\n" + hash + "\n"))
	want := map[string]KeyRecord{"k-1": {Tenant: "acme"}, "k-2": {Tenant: "beta", Plan: "pro", Disabled: true}, hash: {}}
	if err != nil || fmt.Sprint(keys) != fmt.Sprint(want) {
		t.Errorf("%v, %v", keys, err)
	}
	for content, want := range map[string]string{
		"secret\nsecret tenant=a":              "line 2: the key of line 1 again",
		"secret\nsha256:" + idOf("secret"):     "line 2: the key of line 1 again",
		"\nsha256:secret":                      "line 2: sha256: takes 64 hex digits",
		"a secret":                             "line 1: after the key only tenant=NAME, plan=NAME and disabled, each once",
		"secret tenant=":                       "line 1: tenant is empty or given twice",
		"secret tenant=a tenant=b":             "line 1: tenant is empty or given twice",
		"secret plan=a plan=a":                 "line 1: plan is empty or given twice",
		"secret disabled disabled":             "line 1: after the key only",
		"secret disabled=true":                 "line 1: after the key only",
		strings.Repeat("secret", 100):          "line 1: a key is longer than 512 bytes",
		strings.Repeat("secret ", 20_000):      "reading API keys: ",
		"# a comment\n\n\nsecret owner=secret": "line 4: after the key only",
	} {
		_, err := ReadKeys(strings.NewReader(content))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %s", content, err, want)
		}
	}
}

func TestResolvingCostsNothing(t *testing.T) {
	d := &ledger{keys: map[string]KeyRecord{"looked-up": {Tenant: "acme"}}, tenants: map[string]TenantRecord{"acme": {Plan: "pro"}}}
	r := resolver(t, Config{
		ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.0.0.0/8"), prefix(t, "2001:db8::/32")}},
		APIKeys:  APIKeys{Header: "X-API-Key", Keys: map[string]KeyRecord{"listed": {Tenant: "acme"}}, Lookups: lookups(t, d, LookupOptions{})},
		User:     User{Header: "X-User"},
	})
	forwarded := resolver(t, Config{ClientIP: ClientIP{TrustedProxies: []netip.Prefix{prefix(t, "10.0.0.0/8")}, Header: "Forwarded"}})
	peer, proxy := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.2.3")
	for name, tt := range map[string]struct {
		r    *Resolver
		call Call
	}{
		"plain":         {r, Call{Peer: peer, Header: http.Header{"Accept": {"*/*"}}}},
		"proxied":       {r, Call{Peer: proxy, Header: http.Header{"X-Forwarded-For": {"6.6.6.6, [2001:db9::1]:443, 10.1.2.4", "10.1.2.5"}}}},
		"forwarded":     {forwarded, Call{Peer: proxy, Header: http.Header{"Forwarded": {`for=6.6.6.6, for="[2001:db9::1]:443";proto=https`}}}},
		"distrusted":    {r, Call{Peer: peer, Header: http.Header{"X-Forwarded-For": {"6.6.6.6"}}}},
		"listed key":    {r, Call{Peer: peer, Header: http.Header{"X-Api-Key": {"listed"}}}},
		"key looked up": {r, Call{Peer: peer, Header: http.Header{"X-Api-Key": {"looked-up"}}}},
		"user":          {r, Call{Peer: proxy, Header: http.Header{"X-User": {"alice"}}}},
	} {
		ctx := context.Background()
		n := testing.AllocsPerRun(50, func() {
			if _, err := tt.r.Resolve(ctx, &tt.call); err != nil {
				t.Error(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	r := resolver(b, Config{
		ClientIP: ClientIP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		APIKeys:  APIKeys{Header: "X-API-Key", Keys: map[string]KeyRecord{"k-acme-1": {Tenant: "acme"}}},
		Tenants:  map[string]TenantRecord{"acme": {Plan: "pro"}},
	})
	for name, call := range map[string]Call{
		"peer":    {Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{}},
		"proxied": {Peer: netip.MustParseAddr("10.1.2.3"), Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}}},
		"key":     {Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {"k-acme-1"}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Resolve(b.Context(), &call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
