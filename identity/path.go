package identity

import (
	"slices"
	"strings"
)

// One resource has many spellings, and a limiter that keeps a balance per
// spelling has no limit. CleanPath brings them to one: percent-encoding is
// undone, // is /, . and .. are walked, a slash at the end and everything from
// ? or # on are dropped. Case stays. %2F stays too, in capitals: it is a slash
// in a name, not one between names.
//
// That is the reading of most servers, but not of all, and which server stands
// behind is not known here. Where servers disagree a path has several readings:
//
//	/a%2Fb      nginx serves /a/b, others the name a%2Fb
//	/a//../b    /b where // is one slash first; /a/b where .. leaves the empty name
//	/a\b        servers that follow the browser's rules read /a/b
//	/a;v=1/b    servlet containers serve /a/b
//	/a#/../b    nginx serves /a; Caddy and net/http take # for a letter and serve /b
//
// Whoever limits a path limits it under every reading, or refuses it. Encoded
// letters are no such case: all servers decode before they walk the dots.

// CleanPath returns the first reading of a raw path. It allocates only if
// something has to be changed, and is applied once: %2525 cleans to %25.
func CleanPath(raw string) string {
	raw = cutQuery(raw)
	if isClean(raw) {
		return raw
	}
	return clean(raw, 0)
}

// AppendReadings appends every reading of a raw path, CleanPath's first, each
// once and at most 32. More than one means that the path is ambiguous.
func AppendReadings(dst []string, raw string) []string {
	first, path := len(dst), cutQuery(raw)
	if isClean(path) {
		dst = append(dst, path)
	} else {
		dst = appendHabits(dst, first, path)
	}
	if len(path) < len(raw) && raw[len(path)] == '#' {
		whole, _, _ := strings.Cut(raw, "?")
		dst = appendHabits(dst, first, whole)
	}
	return dst
}

// appendHabits appends what every server may make of path, whose # is a letter,
// less what stands in dst from first on.
func appendHabits(dst []string, first int, path string) []string {
	possible := disputes(path)
	// Every combination, from none on: one server may hold two of these habits.
	for h := habits(0); ; h = (h - possible) & possible {
		if reading := clean(path, h); !slices.Contains(dst[first:], reading) {
			dst = append(dst, reading)
		}
		if h == possible {
			return dst
		}
	}
}

// habits are what servers do beyond the first reading, as a set.
type habits uint8

const (
	encodedSlashes habits = 1 << iota // %2F is a slash
	backslashes                       // \ is a slash
	parameters                        // a name ends at ;
	emptyNames                        // .. takes an empty name as any other
)

// disputes returns the habits that could matter for the path.
func disputes(raw string) habits {
	var h habits
	for i := range len(raw) {
		switch c, _ := decode(raw[i:]); {
		case c == '/' && raw[i] == '%':
			h |= encodedSlashes | emptyNames
		case c == '\\':
			h |= backslashes | emptyNames
		case raw[i] == ';':
			h |= parameters | emptyNames
		case c == '/' && strings.HasPrefix(raw[i+1:], "/"):
			h |= emptyNames
		}
	}
	return h
}

// clean reads a path with the given habits. out is a stack of names, each with
// the slash before it.
func clean(raw string, h habits) string {
	var space [256]byte
	out := space[:0]
	var name [256]byte
	segment := name[:0]
	skipping := false // past the ; of a name
	for i := 0; i < len(raw); {
		c, width := decode(raw[i:])
		switch {
		case c == '/' && (width == 1 || h&encodedSlashes != 0), c == '\\' && h&backslashes != 0:
			out = push(out, segment, h)
			segment, skipping = segment[:0], false
		case skipping:
		case h&parameters != 0 && raw[i] == ';':
			skipping = true
		case c == '/':
			segment = append(segment, "%2F"...)
		default:
			segment = append(segment, c)
		}
		i += width
	}
	out = push(out, segment, h)
	if h&emptyNames != 0 {
		out = withoutEmptyNames(out)
	}
	if len(out) == 0 {
		return "/"
	}
	return string(out)
}

// push walks one name.
func push(out, name []byte, h habits) []byte {
	switch {
	case len(name) == 0 && h&emptyNames == 0, string(name) == ".":
		return out
	case string(name) == "..":
		for i := len(out) - 1; i >= 0; i-- {
			if out[i] == '/' {
				return out[:i]
			}
		}
		return out
	}
	return append(append(out, '/'), name...)
}

func withoutEmptyNames(path []byte) []byte {
	out := path[:0]
	for i, c := range path {
		if c != '/' || i+1 < len(path) && path[i+1] != '/' {
			out = append(out, c)
		}
	}
	return out
}

// decode returns the first byte of a non-empty s, and how many bytes spell it.
// What only looks like an escape is a percent sign.
func decode(s string) (c byte, width int) {
	if s[0] == '%' && len(s) >= 3 {
		high, ok1 := unhex(s[1])
		low, ok2 := unhex(s[2])
		if ok1 && ok2 {
			return high<<4 | low, 3
		}
	}
	return s[0], 1
}

func unhex(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func cutQuery(raw string) string {
	for i := range len(raw) { // faster than strings.IndexAny for what paths are
		if raw[i] == '?' || raw[i] == '#' {
			return raw[:i]
		}
	}
	return raw
}

// isClean reports whether the path is its own and only reading.
func isClean(raw string) bool {
	if raw == "" || raw[0] != '/' || len(raw) > 1 && raw[len(raw)-1] == '/' {
		return false
	}
	for i := range len(raw) {
		switch raw[i] {
		case '%', '\\', ';':
			return false
		case '/':
			if rest := raw[i+1:]; rest != "" && (rest[0] == '/' || rest[0] == '.') {
				// Also names such as .well-known: clean finds out.
				return false
			}
		}
	}
	return true
}
