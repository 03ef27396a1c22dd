package identity

import (
	"net/netip"
	"strings"
)

// cutLastForwarded takes the last element off the value of a Forwarded header
// (RFC 7239 §4) and reads its node. Pairs are read from the right, as the whole
// header is, and the element must be well formed from end to end: names and
// bare values without separators, quotes in pairs, for exactly once.
//
// Where RFC 7239 is stricter than senders are, senders win: a node may hold
// colons and brackets without quotes, and IPv6 without brackets.
func cutLastForwarded(list string) (rest string, ip netip.Addr, ok, more bool) {
	named := false
	for {
		var name, value string
		var separator byte
		if list, name, value, separator, ok = cutLastPair(list); !ok {
			return "", netip.Addr{}, false, false
		}
		if strings.EqualFold(name, "for") {
			if named {
				return "", netip.Addr{}, false, false
			}
			named = true
			if ip, ok = parseNode(value); !ok || strings.ContainsAny(value, " \t") {
				return "", netip.Addr{}, false, false
			}
		}
		if separator != ';' {
			return list, ip, named, separator == ','
		}
	}
}

// cutLastPair takes the last name=value off a Forwarded value. The separator is
// what stood before it: ';' within an element, ',' between two, 0 at the start.
// The value comes without its quotes; one with an escape in it is left as it
// stands, which no address survives.
func cutLastPair(s string) (rest, name, value string, separator byte, ok bool) {
	s = strings.TrimRight(s, " \t")
	end := len(s)
	if end > 0 && s[end-1] == '"' {
		open := openingQuote(s[:end-1])
		if open < 0 {
			return "", "", "", 0, false
		}
		value = s[open+1 : end-1]
		end = open
	} else {
		for end > 0 && isNodeByte(s[end-1]) {
			end--
		}
		if value = s[end:]; value == "" {
			return "", "", "", 0, false
		}
	}
	if end == 0 || s[end-1] != '=' {
		return "", "", "", 0, false
	}
	end--
	start := end
	for start > 0 && isTokenByte(s[start-1]) {
		start--
	}
	if name = s[start:end]; name == "" {
		return "", "", "", 0, false
	}
	s = strings.TrimRight(s[:start], " \t")
	if s == "" {
		return "", name, value, 0, true
	}
	separator = s[len(s)-1]
	return s[:len(s)-1], name, value, separator, separator == ';' || separator == ','
}

// openingQuote finds the quote that opens what ends at the end of s: the last
// one that an odd number of backslashes does not escape.
func openingQuote(s string) int {
	for {
		i := strings.LastIndexByte(s, '"')
		if i < 0 {
			return -1
		}
		slashes := len(s[:i]) - len(strings.TrimRight(s[:i], `\`))
		if slashes%2 == 0 {
			return i
		}
		s = s[:i]
	}
}

func isNodeByte(c byte) bool { return isTokenByte(c) || c == ':' || c == '[' || c == ']' }

// isTokenByte reports whether c may stand in an HTTP token.
func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// IsToken reports whether s is an HTTP token, as methods and header names are.
func IsToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}
