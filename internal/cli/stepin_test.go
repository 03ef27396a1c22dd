package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/observe/stream"
)

const observed = `
decision_timeout: 1s
key_secret_file: secret
events: {redis_stream: "weir:events", admitted: 100%}
api_keys: {header: X-API-Key, keys: {"k-acme-1": {tenant: acme}}}
tenants: {acme: {plan: pro}}
limits:
  - {name: per-tenant, key: [tenant], limit: 2/day, on_missing: skip}
  - {name: by-network, key: [tenant], limit: 1000/day}
  - {name: login, match: {paths: [/login, "/password/*"]}, key: [ip, route], limit: 100/day}
  - {name: by-header, match: {paths: [/free]}, key: [path], limit: 1/day}
`

// ask has one path decided and returns the answer and the ID of the refusal, which
// must be the same in the header and in the body.
func (p *process) ask(path, key string) (allowed bool, id string) {
	p.t.Helper()
	body, err := json.Marshal(map[string]any{"path": path, "ip": "192.0.2.1", "headers": map[string][]string{"X-API-Key": {key}}})
	if err != nil {
		p.t.Fatal(err)
	}
	w, err := http.Post(p.url+"/v1/check", "application/json", strings.NewReader(string(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	var answer struct {
		Allowed  bool
		Decision string
	}
	if err := json.NewDecoder(w.Body).Decode(&answer); err != nil {
		p.t.Fatal(err)
	}
	if id = w.Header.Get("Weir-Decision"); id != answer.Decision || answer.Allowed == (id != "") {
		p.t.Errorf("%s: allowed %v, the field says %q, the body %q", path, answer.Allowed, id, answer.Decision)
	}
	return answer.Allowed, id
}

// TestWhyResetBlock: a refusal is explained by the instance that gave it and, from
// the stream of events, by another; a caller is reset and blocked by the name it
// is known by, on all instances; the log says by whom, and no key.
func TestWhyResetBlock(t *testing.T) {
	server := testredis.Start(t)
	file := policyFile(t, observed)
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "secret"), []byte("a secret of this test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	two := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	allowed, id := true, ""
	for range 3 {
		allowed, id = one.ask("/", "k-acme-1")
	}
	if allowed {
		t.Fatal("the third of two is admitted")
	}
	why := func(p *process) (y admin.Why) {
		t.Helper()
		if err := json.Unmarshal([]byte(tell(t, 0, "why", id, "--json", "--addr", p.admin)), &y); err != nil {
			t.Fatal(err)
		}
		return y
	}
	y := why(one)
	if y.Rule != "per-tenant" || y.Reason != "limited" || y.Tenant != "acme" || y.Plan != "pro" || y.Key != "tenant=acme" || y.Limit != "2/day" ||
		y.Now == nil || y.Now.Allowed || y.Now.Remaining != 0 || y.Now.RetryAfterMS <= 0 || y.Then == nil || y.Then.ClearsAt == "" {
		t.Errorf("%+v", y)
	}
	until(t, func() string { // the event is written a moment after the decision
		text := tell(t, 0, "why", id, "--addr", one.admin)
		if !strings.Contains(text, "admitted in ") {
			return text
		}
		w, err := http.Get(two.admin + "/v1/why?id=" + id)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		if w.StatusCode != http.StatusOK {
			return "the other instance says " + w.Status
		}
		return ""
	})
	if other := why(two); other.Rule != "per-tenant" || other.KeyHash != y.KeyHash || other.Instance == "" || other.Now != nil {
		t.Errorf("from the other instance: %+v", other)
	}
	tell(t, 2, "why", strings.Repeat("0", 32), "--addr", one.admin)

	becomes := func(p *process, want bool) {
		t.Helper()
		until(t, func() string {
			if allowed, _ := p.ask("/", "k-acme-1"); allowed != want {
				return "not as it should be"
			}
			return ""
		})
	}
	tell(t, 0, "reset", "--rule", "per-tenant", "--tenant", "acme", "--by", "ann", "--addr", two.admin)
	becomes(one, true)
	tell(t, 0, "reset", "--rule", "per-tenant", "--tenant", "acme", "--addr", two.admin)
	said := tell(t, 0, "block", "--rule", "per-tenant", "--tenant", "acme", "--for", "1h", "--addr", one.admin)
	if !strings.HasPrefix(said, "blocked until ") {
		t.Errorf("%q", said)
	}
	becomes(two, false)
	if y := why(one); y.Now.Allowed || y.Now.RetryAfterMS < 3_000_000 {
		t.Errorf("while blocked: %+v", y.Now)
	}
	tell(t, 0, "block", "--rule", "per-tenant", "--tenant", "acme", "--for", "0s", "--addr", one.admin)
	becomes(two, true)
	tell(t, 0, "reset", "--key", "user:42", "--limit", "100/min", "--addr", one.admin)
	for _, wrong := range [][]string{
		{"reset"}, {"reset", "--rule", "per-tenant"}, {"reset", "--rule", "none", "--tenant", "acme"}, {"reset", "--key", "k"},
		{"block", "--rule", "per-tenant", "--tenant", "acme"}, {"reset", "--rule", "per-tenant", "--key", "k", "--limit", "1/s"},
		{"top", "-n", "0"},
	} {
		tell(t, 2, append(wrong, "--addr", one.admin)...)
	}
	// Who has no tenant shares a balance with their network, if that is asked for.
	tell(t, 2, "reset", "--rule", "by-network", "--ip", "192.0.2.9", "--addr", one.admin)
	tell(t, 0, "reset", "--rule", "by-network", "--without", "tenant", "--ip", "192.0.2.9", "--addr", one.admin)
	// A balance that no caller has is none: success would be without effect.
	for wrong, problem := range map[string]string{
		`{"rule":"per-tenant","parts":{"tenant":null,"ip":"192.0.2.9"}}`:        "the rule does not count callers without it",
		`{"rule":"login","parts":{"ip":"192.0.2.9"}}`:                           "parts.route: is missing; the rule's are /login, /password/*",
		`{"rule":"login","parts":{"ip":"192.0.2.9","route":"/other"}}`:          "is under none of the rule's paths",
		`{"rule":"login","parts":{"ip":"192.0.2.0/24","route":"/login"}}`:       "parts.ip",
		`{"rule":"login","parts":{"ip":"192.0.2.9","route":"/login","x":null}}`: "parts.x: is not in the key of this rule",
		`{"rule":"login","parts":{"ip":"192.0.2.9","route":"\u0000"}}`:          "parts.route",
	} {
		if status, answer := postTo(t, one.admin+"/v1/reset", wrong); status != 400 || !strings.Contains(answer, problem) {
			t.Errorf("%s: %d %s", wrong, status, answer)
		}
	}
	// A path is taken to its pattern.
	blocked := func(want int) {
		t.Helper()
		until(t, func() string {
			if d, err := one.check("GET", "/password/new", "192.0.2.9", ""); err != nil || d.Status != want {
				return "not as it should be"
			}
			return ""
		})
	}
	tell(t, 0, "block", "--rule", "login", "--ip", "192.0.2.9", "--part", "route=/password/old", "--for", "1h", "--addr", two.admin)
	blocked(429)
	tell(t, 0, "block", "--rule", "login", "--ip", "192.0.2.9/32", "--part", "route=/password/*", "--for", "0s", "--addr", two.admin)
	blocked(200)
	if two.count(`"action":"reset","by":"ann","from":"127.0.0.1","rule":"per-tenant"`) != 1 || one.count(`"action":"block"`) != 1 || one.count(`"action":"unblock"`) != 1 {
		t.Error("the log does not tell who stepped in")
	}
	if one.count(`"action":"reset","by":"","from":"127.0.0.1","rule":"login"`) == 0 || one.count(`"wrong":"parts.route"`) == 0 {
		t.Error("the log does not tell of resets that were refused")
	}
	for _, p := range []*process{one, two} {
		for _, key := range []string{"user:42", "k-acme-1", "192.0.2.9"} {
			if p.count(key) != 0 {
				t.Errorf("%s stands in the log", key)
			}
		}
	}
}

// TestHostileTextIsHarmless: what callers choose is not obeyed by the terminal that
// shows it, nor by the log, nor by whoever reads the admin door's answers.
func TestHostileTextIsHarmless(t *testing.T) {
	file := policyFile(t, strings.Replace(strings.Replace(observed, "key_secret_file: secret\n", "", 1), `redis_stream: "weir:events"`, "file: events.jsonl", 1))
	p := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--drain-notice", "1ms")
	hostile := "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066<script>alert(1)</script>\u009b31m"
	body, err := json.Marshal(map[string]any{"key": hostile, "limit": "1/day"})
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for range 2 {
		w, err := http.Post(p.url+"/v1/take", "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		id = w.Header.Get("Weir-Decision")
		if err := w.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	harmless := func(what, text string) {
		t.Helper()
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !strings.Contains(text, "gnp.exe") {
			t.Errorf("%s: %q", what, text)
		}
	}
	harmless("weir top", tell(t, 0, "top", "--once", "--addr", p.admin))
	harmless("weir why", tell(t, 0, "why", id, "--addr", p.admin))
	for _, path := range []string{"/v1/top", "/v1/why?id=" + id} {
		w, err := http.Get(p.admin + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Body.Close()
		harmless(path, string(text))
		if strings.Contains(string(text), "<script") || w.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", path, text)
		}
	}
	until(t, func() string {
		if p.count(id) == 0 {
			return "the refusal is not in the log"
		}
		return ""
	})
	if p.count("gnp.exe") != 0 {
		t.Error("the key is in the log")
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	segments, err := stream.Segments(filepath.Join(filepath.Dir(file), "events.jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v %v", segments, err)
	}
	text, err := os.ReadFile(segments[0].Path)
	if err != nil || strings.Count(string(text), "\n") != 2 || strings.Contains(string(text), "gnp.exe") || !strings.Contains(string(text), id) {
		t.Errorf("%s %v", text, err)
	}
}
