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
// "". A value that cannot be decoded is none. Twice is also what some server takes
// for twice: one that divides a query at ; as at &, or reads names as MayName says.
func queryValue(query, name string) string {
	found, times := "", 0
	for rest := query; rest != ""; {
		pair := rest
		divided := false
		if i := strings.IndexAny(rest, "&;"); i >= 0 {
			pair, divided, rest = rest[:i], rest[i] == ';', rest[i+1:]
		} else {
			rest = ""
		}
		k, v, _ := strings.Cut(pair, "=")
		if k != name {
			plain := k
			if strings.ContainsAny(k, "%+") {
				var err error
				if plain, err = url.QueryUnescape(k); err != nil {
					continue
				}
			}
			if plain != name && !MayName(plain, name) {
				continue
			}
			k = plain
		}
		if times++; times > 1 || k != name || divided {
			return ""
		}
		found = v
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

// MayName reports whether some server takes a field of a query or a form whose name is
// given for the one called field. Case and spaces around matter little to many. PHP
// ends a name at a zero byte, and takes a dot, a space and an open bracket for a _;
// others write the path to a value with dots or with brackets, and what has brackets
// behind it is the field, or a list of its values.
func MayName(given, field string) bool {
	if strings.EqualFold(given, field) {
		return true
	}
	field = flatName(field)
	if strings.EqualFold(flatName(given), field) {
		return true
	}
	for i := range len(given) {
		if given[i] == '[' && strings.EqualFold(flatName(given[:i]), field) {
			return true
		}
	}
	return false
}

// flatName returns a name as the most careless of decoders has it.
func flatName(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return flattener.Replace(strings.TrimSpace(name))
}

var flattener = strings.NewReplacer(".", "_", " ", "_", "[", "_", "]", "")
