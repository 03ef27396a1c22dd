package accesslog

import "bytes"

// setRequest takes a request line: METHOD TARGET [PROTOCOL]. Bytes that are no
// request line, such as those of a TLS handshake, leave the record without
// method and path: the request still came.
func (r *Record) setRequest(a *arena, line []byte) {
	method, rest, ok := bytes.Cut(line, []byte{' '})
	if !ok || !isMethod(method) {
		return
	}
	target := rest
	if i := bytes.LastIndexByte(rest, ' '); i >= 0 && bytes.HasPrefix(rest[i+1:], []byte("HTTP/")) {
		target = rest[:i]
	}
	r.Method = a.method(method)
	r.setTarget(a, target)
}

func isMethod(b []byte) bool {
	if len(b) == 0 || len(b) > 32 {
		return false
	}
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// setTarget takes a path with its query, or a URL.
func (r *Record) setTarget(a *arena, target []byte) {
	if i := bytes.Index(target, []byte("://")); i > 0 && i < 8 && target[0] != '/' {
		host := target[i+3:]
		target = nil
		if j := bytes.IndexAny(host, "/?#"); j >= 0 {
			host, target = host[:j], host[j:]
		}
		if r.Host == "" {
			r.Host = a.keep(host)
		}
		if len(target) == 0 || target[0] != '/' {
			target = append([]byte{'/'}, target...)
		}
	}
	path, query, _ := bytes.Cut(target, []byte{'?'})
	r.Path, r.Query = a.keep(path), a.keep(query)
}

// quoted returns the text between the quote that b begins with and the quote
// that ends it, and what follows. \ keeps a quote from ending the text. Without
// an end the text is the rest of b, and closed is false.
func quoted(b []byte) (text, rest []byte, closed bool) {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return b[1:i], b[i+1:], true
		}
	}
	return b[1:], nil, false
}

// word returns the next word of b, which may stand in quotes, and what follows.
func word(b []byte) (text, rest []byte) {
	b = bytes.TrimLeft(b, " ")
	if len(b) > 0 && b[0] == '"' {
		text, rest, _ = quoted(b)
		return text, rest
	}
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return b, nil
	}
	return b[:i], b[i+1:]
}

// isStatus reports whether b is a status code, or the - or 0 or -1 of none.
func isStatus(b []byte) bool {
	switch string(b) {
	case "-", "0", "-1", "000":
		return true
	}
	return len(b) == 3 && b[0] >= '1' && b[0] <= '9' && isDigit(b[1]) && isDigit(b[2])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
