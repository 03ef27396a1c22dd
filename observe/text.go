package observe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless returns s with everything spelled out that a terminal or a browser
// would obey rather than show: control characters, and marks that turn the
// direction of writing or are not seen. Callers choose keys, paths and names.
func Harmless(s string) string {
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for rest := s; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case !obeyed(r):
			b.WriteString(rest[:n])
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		rest = rest[n:]
	}
	return b.String()
}

// obeyed reports whether r is not merely shown; RuneError stands for bytes that
// are no UTF-8.
func obeyed(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// KeyHash names a key without giving it away, in the form in which a store with
// the same secret keeps it: 128 bits of its HMAC-SHA-256, or without a secret of
// its SHA-256. Whoever can guess keys, such as addresses, can find the key of a
// hash without a secret by trying.
func KeyHash(secret []byte, key string) string {
	var sum []byte
	if len(secret) > 0 {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key))
		sum = mac.Sum(nil)
	} else {
		all := sha256.Sum256([]byte(key))
		sum = all[:]
	}
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
