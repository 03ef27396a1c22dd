package identity

import (
	"net/netip"
	"strings"
)

// CleanHost brings a Host header or authority to one spelling: no port, no dot
// at the end, ASCII letters in lower case, an IPv6 address without brackets. It
// allocates only if a letter has to be changed.
func CleanHost(raw string) string {
	host := bareHost(raw)
	for i := range len(host) {
		if c := host[i]; c >= 'A' && c <= 'Z' {
			return string(appendLower(nil, host))
		}
	}
	return host
}

// bareHost is CleanHost but for the case.
func bareHost(raw string) string {
	host := raw
	if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end >= 0 {
			host = host[1:end]
		}
	} else if i := strings.IndexByte(host, ':'); i >= 0 {
		// Servers cut at the first colon, however many there are; an IPv6 address
		// has its own.
		if _, err := netip.ParseAddr(host); err != nil {
			host = host[:i]
		}
	}
	return strings.TrimRight(host, ".")
}

func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func appendUpper(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
