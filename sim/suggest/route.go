package suggest

import (
	"strings"

	"github.com/weirhq/weir/identity"
)

// maxSegments is how deep paths are told apart.
const maxSegments = 3

// Route returns the pattern that a path most likely belongs to: segments that
// look like the name of one thing among many become *, and what lies deep **.
func Route(raw string) string {
	path := identity.CleanPath(raw)
	if path == "/" {
		return path
	}
	var b strings.Builder
	n := 0
	for segment := range strings.SplitSeq(path[1:], "/") {
		if n++; n > maxSegments {
			b.WriteString("/**")
			break
		}
		b.WriteByte('/')
		if oneOfMany(segment) {
			segment = "*"
		}
		b.WriteString(segment)
	}
	return b.String()
}

// takes reports whether a pattern takes all requests of another: /users/* those of
// /users/me, and /a/b/c/** those of /a/b/c.
func takes(pattern, other string) bool {
	pattern, deep := strings.CutSuffix(pattern, "/**")
	other, deeper := strings.CutSuffix(other, "/**")
	if deeper && !deep {
		return false
	}
	of, segments := strings.Split(pattern, "/"), strings.Split(other, "/")
	if len(of) != len(segments) || strings.HasSuffix(other, "/") != strings.HasSuffix(pattern, "/") {
		return false
	}
	for i, segment := range of {
		if segment != "*" && segment != segments[i] {
			return false
		}
	}
	return true
}

// oneOfMany reports whether a segment is an identifier rather than a word:
// numbers, long hexadecimal, or text that a policy could not name.
func oneOfMany(s string) bool {
	if s == "" || len(s) > 40 {
		return true
	}
	digits, plain := 0, true
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_', c == '.', c == '~':
		default:
			plain = false
		}
	}
	return !plain || digits == len(s) || digits >= 4 && 3*digits >= len(s)
}
