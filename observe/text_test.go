package observe

import (
	"strings"
	"testing"
	"unicode"
)

// samples are what callers send to see what obeys it. Harmless text holds nothing
// but what is shown.
var samples = []string{
	"\x1b[2J\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\link", "\u009b31m", "a\rb\nc\td\x00e\x7f",
	"user\u202egnp.exe", "\u2066isolated\u2069", "zero\u200bwidth\ufeff", "line\u2028para\u2029", "\xff\xfe broken \xc3", "tag \U000e0041",
}

func TestHarmless(t *testing.T) {
	for _, s := range samples {
		got := Harmless(s)
		if got == s || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q came out as %q", s, got)
		}
	}
	for _, s := range []string{"", "plain", "ключ 鍵 é €", `back\slash "quoted" <b>`} {
		if got := Harmless(s); got != s {
			t.Errorf("%q came out as %q", s, got)
		}
	}
	if got := Harmless("a\x1b\u202e\xffb"); got != `a\u001b\u202e\xffb` {
		t.Errorf("%q", got)
	}
}

func TestKeyHash(t *testing.T) {
	plain, secret, other := KeyHash(nil, "k"), KeyHash([]byte("s"), "k"), KeyHash([]byte("s"), "l")
	if plain == secret || secret == other || len(secret) != 22 || secret != KeyHash([]byte("s"), "k") {
		t.Errorf("%q %q %q", plain, secret, other)
	}
}
