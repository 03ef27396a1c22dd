package cli_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

const switchable = `
decision_timeout: 1s
limits:
  - {name: login, match: {paths: [/login]}, key: [ip], limit: 1/day, on_store_failure: closed}
  - {name: other, match: {paths: [/other]}, key: [ip], limit: 1/day, mode: shadow}
`

// tell runs weir to its end and returns what it printed.
func tell(t *testing.T, code int, args ...string) string {
	t.Helper()
	c := exec.Command("weir", args...)
	text, _ := c.CombinedOutput() // the exit code tells
	if got := c.ProcessState.ExitCode(); got != code {
		t.Fatalf("weir %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, text)
	}
	return string(text)
}

// TestModeReachesAllInstances: a rule that refuses is put in shadow through one
// instance, and another admits; the switch ends when asked to, and by itself; both
// logs say who did what until when.
func TestModeReachesAllInstances(t *testing.T) {
	server := testredis.Start(t)
	file := policyFile(t, switchable)
	one := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	two := start(t, "serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	answers := func(p *process, path string, want int) {
		t.Helper()
		until(t, func() string {
			if d, err := p.check("GET", path, "192.0.2.1", ""); err != nil || d.Status != want {
				return "not " + path
			}
			return ""
		})
	}
	one.mustCheck("GET", "/login", "192.0.2.1", "")
	one.mustCheck("GET", "/other", "192.0.2.1", "")
	answers(two, "/login", 429)

	began := time.Now()
	said := tell(t, 0, "mode", "shadow", "--rule", "login", "--for", "5m", "--by", "ann", "--addr", one.admin)
	answers(two, "/login", 200)
	t.Logf("the other instance followed after %s", time.Since(began))
	answers(one, "/login", 200)
	if !strings.Contains(said, "rule login: shadow until ") || !strings.Contains(said, "on all instances") {
		t.Errorf("the command says %s", said)
	}
	for _, p := range []*process{one, two} {
		until(t, func() string {
			if p.count(`"msg":"the mode of rules is switched","rule":"login","mode":"shadow","by":"ann","until":"`) != 1 {
				return "the log does not tell of the switch once"
			}
			return ""
		})
	}
	if one.count(`"msg":"asked to switch the mode of rules","rule":"login","mode":"shadow","for":"5m0s","by":"ann","from":"127.0.0.1"`) != 1 {
		t.Error("the log does not say who asked")
	}

	tell(t, 0, "mode", "shadow", "--rule", "login", "--for", "0s", "--addr", two.admin)
	answers(one, "/login", 429)
	answers(two, "/login", 429)

	// Every rule, those in shadow too, until it ends by itself.
	answers(two, "/other", 200)
	tell(t, 0, "mode", "enforce", "--for", "2s", "--addr", one.admin)
	answers(two, "/other", 429)
	answers(two, "/other", 200)
	answers(one, "/other", 200)
	until(t, func() string {
		if two.count(`"msg":"a switch of modes has ended`) != 2 {
			return "the log does not tell of both ends"
		}
		return ""
	})

	// Without Redis, the one that is asked follows.
	server.Kill()
	answers(one, "/login", 503)
	answers(two, "/login", 503)
	said = tell(t, 0, "mode", "shadow", "--for", "5m", "--addr", two.admin)
	if !strings.Contains(said, "on this instance alone") {
		t.Errorf("the command says %s", said)
	}
	answers(two, "/login", 200)
	if d := one.mustCheck("GET", "/login", "192.0.2.1", ""); d.Status != 503 {
		t.Errorf("the other answers %+v", d)
	}
}

// TestModeAlwaysEnds: no switch without an end, nor for a rule or a mode that is
// not there.
func TestModeAlwaysEnds(t *testing.T) {
	p := start(t, "serve", "-c", policyFile(t, switchable), "--http", "127.0.0.1:0", "--drain-notice", "1ms")
	for body, field := range map[string]string{
		`{"mode":"shadow"}`:                               "for",
		`{"for":"1m"}`:                                    "mode",
		`{"mode":"off","for":"1m"}`:                       "mode",
		`{"mode":"shadow","for":"25h"}`:                   "for",
		`{"mode":"shadow","for":"-1s"}`:                   "for",
		`{"mode":"shadow","for":"soon"}`:                  "for",
		`{"mode":"shadow","for":"1m","rule":"nobody"}`:    "rule",
		`{"mode":"shadow","for":"1m","until":"tomorrow"}`: "until",
	} {
		if status, answer := postTo(t, p.admin+"/v1/mode", body); status != 400 || !strings.Contains(answer, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	tell(t, 2, "mode", "shadow", "--addr", p.admin)
	tell(t, 2, "mode", "off", "--for", "1m", "--addr", p.admin)
	tell(t, 2, "mode", "shadow", "--for", "1m", "--addr", "http://127.0.0.1:1")
	if said := tell(t, 0, "mode", "shadow", "--for", "1m", "--addr", p.admin, "--json"); !strings.Contains(said, `"everywhere":false`) {
		t.Error(said)
	}
	// What no store keeps ends by itself too, and the log tells of it.
	tell(t, 0, "mode", "enforce", "--rule", "other", "--for", "1s", "--addr", p.admin)
	until(t, func() string {
		if p.count(`"msg":"a switch of modes has ended: the policy's mode holds again","rule":"other"`) != 1 {
			return "the log does not tell of the end"
		}
		return ""
	})
}

// TestShadowOfAll: a daemon that only tries its policy refuses nobody, from the first
// request on, but by a rule that is switched by name for a while.
func TestShadowOfAll(t *testing.T) {
	p := start(t, "serve", "-c", policyFile(t, switchable+"ambiguous_path: reject\n"), "--shadow", "--http", "127.0.0.1:0", "--drain-notice", "1ms")
	for range 3 {
		if d := p.mustCheck("GET", "/login", "192.0.2.1", ""); d.Status != 200 {
			t.Fatalf("in shadow: %+v", d)
		}
	}
	if d := p.mustCheck("GET", "/a;b/c", "192.0.2.1", ""); d.Status != 200 {
		t.Fatalf("in shadow, a path of two readings: %+v", d)
	}
	tell(t, 0, "mode", "enforce", "--rule", "login", "--for", "5m", "--addr", p.admin)
	if d := p.mustCheck("GET", "/login", "192.0.2.1", ""); d.Status != 429 {
		t.Errorf("enforced by name: %+v", d)
	}
	tell(t, 0, "mode", "enforce", "--rule", "login", "--for", "0s", "--addr", p.admin)
	if d := p.mustCheck("GET", "/login", "192.0.2.1", ""); d.Status != 200 {
		t.Errorf("in shadow again: %+v", d)
	}
	tell(t, 0, "mode", "enforce", "--for", "5m", "--addr", p.admin)
	if d := p.mustCheck("GET", "/login", "192.0.2.1", ""); d.Status != 200 {
		t.Errorf("in shadow, with every rule enforced: %+v", d)
	}
	if p.count(`"msg":"a switch of every rule does not hold here`) != 1 {
		t.Error("the log does not tell that the switch does not hold")
	}
}

// TestShadowOfAllBesideOthers: what another instance on the same store is told of
// every rule does not make a daemon on trial refuse people; what it is told by name
// does.
func TestShadowOfAllBesideOthers(t *testing.T) {
	server := testredis.Start(t)
	file := policyFile(t, switchable)
	serve := []string{"serve", "-c", file, "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms"}
	plain, trial := start(t, serve...), start(t, append(serve, "--shadow")...)
	spent := func(p *process, path string) int { return p.mustCheck("GET", path, "192.0.2.1", "").Status }
	for range 3 {
		if got := spent(trial, "/login"); got != 200 {
			t.Fatalf("in shadow: %d", got)
		}
	}
	spent(plain, "/other")
	tell(t, 0, "mode", "enforce", "--for", "5m", "--addr", plain.admin)
	if got := spent(plain, "/other"); got != 429 { // it follows at once
		t.Errorf("every rule is enforced, and a plain daemon says %d", got)
	}
	// One switch by name more, so that it is seen when the trial has read both.
	tell(t, 0, "mode", "enforce", "--rule", "other", "--for", "5m", "--addr", plain.admin)
	until(t, func() string {
		if spent(trial, "/other") != 429 {
			return "what is enforced by name is not enforced by a daemon on trial"
		}
		return ""
	})
	if got := spent(trial, "/login"); got != 200 {
		t.Errorf("a daemon on trial says %d since another was told to enforce every rule", got)
	}
}

// TestModeOfAFullStore: a store that is there and refuses the write is an error,
// and nothing is switched.
func TestModeOfAFullStore(t *testing.T) {
	server := testredis.Start(t, "maxmemory 1", "maxmemory-policy noeviction")
	p := start(t, "serve", "-c", policyFile(t, switchable), "--http", "127.0.0.1:0", "--store", server.URL(), "--drain-notice", "1ms")
	if said := tell(t, 1, "mode", "shadow", "--rule", "login", "--for", "5m", "--addr", p.admin); !strings.Contains(said, "503") || !strings.Contains(said, "oom") {
		t.Errorf("the command says %s", said)
	}
	if p.count(`"msg":"asked to switch the mode of rules, and the store refused: nothing is switched"`) != 1 || p.count(`"msg":"the mode of rules is switched"`) != 0 {
		t.Error("the log does not tell of the refusal alone")
	}
}
