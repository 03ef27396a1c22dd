package policyfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
)

func load(t *testing.T, name string) *File {
	t.Helper()
	f, err := Load(filepath.Join("testdata", "good", name))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDefaults(t *testing.T) {
	for _, name := range []string{"no-rules.yaml", "no-values.yaml"} {
		f := load(t, name)
		want := defaults(f.Name)
		if f.Store != want.Store || f.KeyPrefix != "weir" || f.Listen != want.Listen || f.Headers != want.Headers ||
			f.RetryJitter.Of(1000) != 200 || f.DecisionTimeout != 50*time.Millisecond || f.MaxOvershoot != 0 ||
			f.ClientIP.Header != "X-Forwarded-For" || f.ClientIP.IPv4Prefix != 32 || f.ClientIP.IPv6Prefix != 64 ||
			f.Listen.HTTP.Address != "127.0.0.1:8080" || f.Listen.Admin.Address != "127.0.0.1:8082" || f.Listen.GRPC.Address != "" ||
			!f.Headers.Triple || !f.Headers.Draft11 || f.Headers.XRateLimit || len(f.Policy.Rules()) != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestSettings(t *testing.T) {
	f := load(t, "listeners.yaml")
	if l := f.Listen; !l.HTTP.ProxyProtocol || l.HTTP.Auth != "none" || l.HTTP.TLS.KeyFile != "/etc/weir/key.pem" ||
		l.GRPC.Auth != "mtls" || l.GRPC.TLS.ClientCAFile != filepath.Join("testdata", "good", "ca.pem") || l.RESP.Address != "unix:/run/weir/resp.sock" ||
		f.Admin.TokenFile != "/run/secrets/admin" || !f.Admin.OpenMetrics {
		t.Errorf("listeners: %+v, admin %+v", l, f.Admin)
	}
	f = load(t, "sentinel.yaml")
	if s := f.Store; s.Username != "weir" || s.PasswordFile != "/run/secrets/redis" || s.Connections != 4 || !strings.HasSuffix(s.TLS.CAFile, "ca.pem") {
		t.Errorf("store: %+v", s)
	}
	if s := load(t, "cluster.yaml").Store; strings.Contains(s.String(), "secret") || s.String() != "redis+cluster" {
		t.Errorf("a store's text shows its password: %q", s.String())
	}
	f = load(t, "callers.yaml")
	if c := f.ClientIP; c.Header != "Cf-Connecting-Ip" || len(c.TrustedProxies) != 3 || c.IPv4Prefix != 24 || c.IPv6Prefix != 56 || !c.TrustUnix {
		t.Errorf("client_ip: %+v", c)
	}
	if k := f.APIKeys; k.Header != "Authorization" || !k.Redis || len(k.Keys) != 4 || !k.Keys["k-old"].Disabled || k.Keys["k-file-1"].Tenant != "acme" {
		t.Errorf("api_keys: %+v", k)
	}
	if f.Tenants["acme"].Plan != "pro" || f.Tenants["42"].Plan != "free" || len(f.Tenants) != 3 {
		t.Errorf("tenants: %+v", f.Tenants)
	}
	if u := f.User; u.Header != "X-User" || len(u.JWT.KeyFiles) != 1 || u.JWT.Claim != "email" || u.JWT.Header != "Authorization" || u.JWT.Leeway != 30*time.Second {
		t.Errorf("user: %+v", u)
	}
	f = load(t, "answers.yaml")
	if f.Headers.Triple || !f.Headers.Draft11 || !f.Headers.XRateLimit || f.Headers.XReset != "delta" || f.RetryJitter != 0 ||
		f.DecisionTimeout != 5*time.Millisecond || f.MaxOvershoot.Of(10_000) != 50 || f.Denied.Status != 403 || string(f.Denied.Body) != "Too many requests.\n" ||
		f.Events.RedisStream != "weir:events" || f.Events.Admitted.Of(10_000) != 25 {
		t.Errorf("answers: %+v", f)
	}
	if f := load(t, "tabs.json"); f.Headers.Triple || f.Headers.Draft11 {
		t.Errorf("headers: [] sends %+v", f.Headers)
	}
}

func TestRules(t *testing.T) {
	r := load(t, "matching.yaml").Policy.Rules()[0]
	if r.Limit.String() != "100/month algorithm=fixed_window tz=Europe/Paris name=monthly on_store_failure=share" ||
		r.Plans["pro"].Failure() != weir.Share || r.Plans["free"].String() != "10/s burst=20 on_store_failure=share" ||
		!r.Try.IsUnlimited() || r.Cost.Default != 3 || r.Expose != policy.ExposeYes || r.OnFailure != weir.Share {
		t.Errorf("%+v", r)
	}
	m := r.Match
	if len(m.Methods) != 2 || len(m.Paths) != 3 || len(m.Hosts) != 3 || len(m.IPs) != 1 || len(m.Tenants) != 1 || len(m.Plans) != 2 || len(m.Headers) != 2 || len(r.Not.Paths) != 1 {
		t.Errorf("%+v", m)
	}
	rules := load(t, "tabs.json").Policy.Rules()
	if rules[1].Mode != policy.Shadow || !rules[1].Limit.IsUnlimited() || rules[1].Expose != policy.ExposeNo || rules[0].Limit.Most() != 10 {
		t.Errorf("%+v", rules[1])
	}
	if c := load(t, "compact.json").Policy.Rules()[0].Cost; !c.Free || c.Paths["/x"] != maxCost {
		t.Errorf("%+v", c)
	}
	if rules := load(t, "anchors.yaml").Policy.Rules(); rules[1].Plans["pro"] != rules[0].Limit || len(rules[1].Key) != 2 {
		t.Errorf("aliases: %+v", rules[1])
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := Parse("p.yaml", []byte("limts: []\nkey_prefx: a\nlimits:\n  - {name: r, key: [ipp], limit: 5/mn}\n"))
	want := []string{
		`p.yaml:1:1: unknown field "limts" in the policy file; did you mean "limits"?`,
		`p.yaml:2:1: unknown field "key_prefx" in the policy file; did you mean "key_prefix"?`,
		`p.yaml:4:21: "ipp" is no key part; `, `p.yaml:4:34: "5/mn": unknown unit "mn"`,
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Fatalf("%v", err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("fault %d: %s\nwant    %s", i, got[i], want[i])
		}
	}
	many := "x: 1\n"
	for i := range 100 {
		many += strings.Repeat("y", i+1) + ": 1\n"
	}
	if _, err := Parse("p.yaml", []byte(many)); strings.Count(err.Error(), "\n") != maxErrors-1 {
		t.Errorf("%d lines of faults", strings.Count(err.Error(), "\n"))
	}
}

func TestBounds(t *testing.T) {
	for what, data := range map[string][]byte{
		"too large":     []byte("#" + strings.Repeat("x", MaxSize)),
		"many brackets": []byte("limits: " + strings.Repeat("[", 100_000)),
		"many dashes":   []byte(strings.Repeat("- ", 100_000)),
		"many aliases":  aliasBomb(),
		"many rules":    manyRules(policy.MaxRules + 1),
	} {
		if _, err := Parse("p.yaml", data); err == nil {
			t.Errorf("%s: accepted", what)
		} else if len(err.Error()) > 500 {
			t.Errorf("%s: a message of %d bytes", what, len(err.Error()))
		}
	}
	if _, err := Parse("p.yaml", manyRules(1000)); err != nil {
		t.Errorf("1000 rules: %v", err)
	}
}

// aliasBomb is a file that grows a thousandfold when aliases are written out.
func aliasBomb() []byte {
	var b strings.Builder
	b.WriteString("exempt:\n  - paths: &p [/x")
	for i := range 2000 {
		b.WriteString(", /p" + strings.Repeat("a", i%7) + "/" + string(rune('a'+i%26)) + "/" + strings.Repeat("b", i/182))
	}
	b.WriteString("]\n")
	for range 2000 {
		b.WriteString("  - paths: *p\n")
	}
	return []byte(b.String())
}

func manyRules(n int) []byte {
	var b strings.Builder
	b.WriteString("limits:\n")
	for i := range n {
		name := "r" + strings.Repeat("x", i%5) + string(rune('a'+i%26)) + time.Duration(i).String()
		b.WriteString("  - {name: \"" + strings.ReplaceAll(name, "µ", "u") + "\", key: [ip], limit: 5/min, match: {paths: [\"/p/" + time.Duration(i).String() + "\"]}}\n")
	}
	return []byte(b.String())
}

func TestNearest(t *testing.T) {
	words := []string{"limits", "listen", "exempt", "on_missing", "on_store_failure", "ip", "tenant"}
	for given, want := range map[string]string{
		"limit": "limits", "Limits": "limits", "limts": "limits", "on-missing": "on_missing", "onMissing": "on_missing",
		"on_store_fail": "on_store_failure", "lisetn": "listen", "xyz": "", "a": "", "exmept": "exempt", "tennant": "tenant",
	} {
		if got := nearest(given, words); got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.*", "testdata/bad/*.*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("p", data)
		if err == nil {
			for _, r := range file.Policy.Rules() {
				if r.Name == "" || len(r.Key) == 0 {
					t.Errorf("a rule without name or key: %+v", r)
				}
			}
			return
		}
		var faults Errors
		if !errors.As(err, &faults) || len(faults) == 0 || !slices.IsSortedFunc(faults, func(a, b *Error) int { return a.Line - b.Line }) {
			t.Errorf("not a list of faults in order: %v", err)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Column < 1 || strings.Contains(fault.Problem, "\n") || fault.Problem == "" {
				t.Errorf("%+v", fault)
			}
		}
	})
}
