package identity

import (
	"net/url"
	"strings"
)

// A value given twice is no value: the service may take the first where we take
// the last, and the caller would choose which balance is charged.

// headerValue returns the value of a header field that was given once, else "".
// The name is canonical.
func headerValue(h Header, name string) string {
	if h == nil {
		return ""
	}
	if values := h.Values(name); len(values) == 1 {
		return strings.Trim(values[0], " \t")
	}
	return ""
}

// cookieValue returns the value of a cookie that was given once, else "".
func cookieValue(h Header, name string) string {
	if h == nil {
		return ""
	}
	found, times := "", 0
	for _, line := range h.Values("Cookie") {
		for pair, rest, more := "", line, true; more; {
			pair, rest, more = strings.Cut(rest, ";")
			k, v, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || strings.Trim(k, " \t") != name {
				continue
			}
			v = strings.Trim(v, " \t")
			if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
				v = v[1 : len(v)-1]
			}
			found = v
			times++
		}
	}
	if times != 1 {
		return ""
	}
	return found
}

// queryValue returns the value of a query parameter that was given once, else
// "". A value that cannot be decoded is none.
func queryValue(query, name string) string {
	found, times := "", 0
	for pair, rest, more := "", query, query != ""; more; {
		pair, rest, more = strings.Cut(rest, "&")
		k, v, _ := strings.Cut(pair, "=")
		if k != name {
			if !strings.ContainsAny(k, "%+") {
				continue
			}
			if plain, err := url.QueryUnescape(k); err != nil || plain != name {
				continue
			}
		}
		found = v
		times++
	}
	if times != 1 {
		return ""
	}
	if strings.ContainsAny(found, "%+") {
		plain, err := url.QueryUnescape(found)
		if err != nil {
			return ""
		}
		return plain
	}
	return found
}
