package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/observe"
)

// hostile is text that a terminal or a browser would obey.
const hostile = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe <script>alert(1)</script> \u2028 \u009b31m"

// TestNothingIsObeyed: whatever a caller chose comes out as text, in messages,
// values and errors, in both forms.
func TestNothingIsObeyed(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		log := New(&out, asJSON, slog.LevelInfo)
		log.Info("message "+hostile, "value", hostile, "error", errors.New("error "+hostile), "any", []string{hostile})
		line := strings.TrimSuffix(out.String(), "\n")
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("JSON %v: %q", asJSON, line)
		}
		if strings.Count(line, "gnp.exe") != 4 {
			t.Errorf("JSON %v: something is missing: %s", asJSON, line)
		}
	}
}

func TestSecretsAreLeftOut(t *testing.T) {
	const secret = "s3cr3t"
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		log := New(&out, asJSON, slog.LevelInfo)
		log.Info("redis://user:"+secret+"@h:6379/0 is away", "password", secret, "Authorization", "Bearer "+secret, "X-API-Key-Secret", secret,
			"error", fmt.Errorf("dial: %w", errors.New("rediss://:"+secret+"@h:1")), "url", "https://"+secret+"@h/", slog.Group("http", "cookie", secret))
		if strings.Contains(out.String(), secret) || strings.Count(out.String(), redacted) != 7 {
			t.Errorf("JSON %v: %s", asJSON, out.String())
		}
		if !strings.Contains(out.String(), "@h:6379/0 is away") {
			t.Errorf("too much is left out: %s", out.String())
		}
	}
}

// TestRefusalsAreSampled: a flood is a few lines a second, which count the rest;
// no line names a key.
func TestRefusalsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := NewRefusals(New(&out, false, slog.LevelInfo), []byte("secret"))
		l, err := weir.New(weir.Options{Observer: r})
		if err != nil {
			t.Fatal(err)
		}
		for range 101 {
			if _, err := l.Allow(context.Background(), "192.0.2.77", weir.Per(1, time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second)
		if _, err := l.Allow(context.Background(), "192.0.2.77", weir.Per(1, time.Hour)); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != perSecond+1 || !strings.Contains(lines[perSecond], "not_logged=95") || r.Suppressed() != 95 {
			t.Errorf("%d left out; %d lines:\n%s", r.Suppressed(), len(lines), out.String())
		}
		if strings.Contains(out.String(), "192.0.2.77") || !strings.Contains(lines[0], "key_hash="+observe.KeyHash([]byte("secret"), "192.0.2.77")) {
			t.Errorf("%s", lines[0])
		}
	})
}

// TestOddPasswords: a store's URL is cut at its last @, so what stands before it
// may hold any of these.
func TestOddPasswords(t *testing.T) {
	for _, password := range []string{"pa/ss", "p@ss", "a/b@c/d", "//x", "u:p@q:r/", "x://y@z"} {
		var out bytes.Buffer
		New(&out, false, slog.LevelInfo).Info("dial redis://user:"+password+"@h:6379/0, by ops@example.com", "error", errors.New("unix://:"+password+"@/run/redis.sock"))
		if strings.Contains(out.String(), password) || !strings.Contains(out.String(), "redis://[redacted]@h:6379/0, by ops@example.com") || !strings.Contains(out.String(), "unix://[redacted]@/run/redis.sock") {
			t.Errorf("%q: %s", password, out.String())
		}
	}
}

// TestABatchIsLoggedAsItsBills: those of it that are refused.
func TestABatchIsLoggedAsItsBills(t *testing.T) {
	var out bytes.Buffer
	l, err := weir.New(weir.Options{Observer: NewRefusals(New(&out, false, slog.LevelInfo), nil)})
	if err != nil {
		t.Fatal(err)
	}
	var bills []*weir.Bill
	for range 5 {
		bills = append(bills, &weir.Bill{Charges: []weir.Charge{weir.Per(3, time.Hour).Charge("k")}})
	}
	if err := l.Decide(context.Background(), bills...); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, bills[3].IDText()) || !strings.Contains(text, bills[4].IDText()) {
		t.Errorf("%s", text)
	}
}
