package identity

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Part is one part of a key: what callers are told apart by. Parts are
// comparable.
type Part struct {
	kind string // one of partNames
	name string // of a header, cookie, query parameter or attribute
	bits int    // of ip/48: how many bits of IPv6 make a caller, or 0
	fold bool   // as ASCII lower case, without spaces around
}

// partNames are the parts there are; those that end in a colon take a name.
var partNames = []string{
	"ip", "api_key", "tenant", "plan", "user", "path", "route", "method", "host", "all",
	"header:", "cookie:", "query:", "attr:",
}

// PartNames returns the parts as ParsePart reads them; those that end in a
// colon take a name.
func PartNames() []string { return slices.Clone(partNames) }

// ParsePart reads a part: a name out of PartNames, such as tenant or
// header:X-Account. Two things may be added. ip/48 counts IPv6 callers by that
// prefix, for a second and wider limit beside the usual one. fold:PART compares
// in ASCII lower case and without spaces around, for values such as mail
// addresses that the service itself compares so. The error is a *ConfigError.
func ParsePart(s string) (Part, error) {
	var p Part
	kind := s
	if rest, ok := strings.CutPrefix(kind, "fold:"); ok {
		kind, p.fold = rest, true
	}
	if i := strings.IndexByte(kind, ':'); i >= 0 {
		kind, p.name = kind[:i+1], kind[i+1:]
	}
	if bits, ok := strings.CutPrefix(kind, "ip/"); ok {
		n, err := strconv.Atoi(bits)
		if err != nil || n < 1 || n > 128 || strconv.Itoa(n) != bits {
			return Part{}, badPart(s, "takes an IPv6 prefix of 1 to 128 bits, such as ip/48")
		}
		kind, p.bits = "ip", n
	}
	switch p.kind = kind; {
	case !slices.Contains(partNames, kind):
		return Part{}, badPart(s, "is no key part; there are "+strings.Join(partNames[:len(partNames)-4], ", ")+", header:NAME, cookie:NAME, query:NAME and attr:NAME")
	case kind == "header:" && !IsToken(p.name), kind == "cookie:" && !IsToken(p.name):
		return Part{}, badPart(s, "needs a name of letters, digits and dashes after the colon")
	case strings.HasSuffix(kind, ":") && p.name == "":
		return Part{}, badPart(s, "needs a name after the colon")
	case kind == "header:" && strings.EqualFold(p.name, "Host"):
		return Part{}, badPart(s, "is never there: net/http takes Host out of the header; the part is called host")
	case kind == "header:":
		p.name = textproto.CanonicalMIMEHeaderKey(p.name)
	}
	return p, nil
}

func badPart(s, problem string) error {
	return &ConfigError{Field: "key", Problem: quoted(s) + " " + problem}
}

// String returns the part as ParsePart reads it.
func (p Part) String() string {
	s := p.kind + p.name
	if p.bits != 0 {
		s += "/" + strconv.Itoa(p.bits)
	}
	if p.fold {
		s = "fold:" + s
	}
	return s
}

// CallerChosen reports whether the caller can make up a new value at will. A
// key of such parts alone limits nobody who does not want to be.
func (p Part) CallerChosen() bool {
	switch p.kind {
	case "path", "method", "host", "header:", "cookie:", "query:":
		return true
	}
	return false
}

// Source is what key parts are read from. Path is the reading of the path that
// the rule is judged under (see AppendReadings), Route the pattern that matched.
type Source struct {
	Call   *Call
	Caller *Caller
	Path   string
	Route  string
}

// appendValue appends the value of the part, and reports whether there is one:
// an empty value is missing, and so is one given twice.
func (p Part) appendValue(dst []byte, s *Source) ([]byte, bool) {
	var value string
	switch p.kind {
	case "ip":
		network := s.Caller.Network
		if p.bits != 0 && !network.Addr().Is4() {
			network = NetworkOf(s.Caller.IP, DefaultIPv4Prefix, p.bits)
		}
		if !network.IsValid() {
			return dst, false
		}
		return AppendNetwork(dst, network), true
	case "all":
		return append(dst, "all"...), true
	case "method":
		return appendUpper(dst, s.Call.Method), s.Call.Method != ""
	case "host":
		host := bareHost(s.Call.Host)
		return appendLower(dst, host), host != ""
	case "api_key":
		value = s.Caller.APIKey
	case "tenant":
		value = s.Caller.Tenant
	case "plan":
		value = s.Caller.Plan
	case "user":
		value = s.Caller.User
	case "path":
		value = s.Path
	case "route":
		value = s.Route
	case "header:":
		value = headerValue(s.Call.Header, p.name)
	case "cookie:":
		value = cookieValue(s.Call.Header, p.name)
	case "query:":
		value = queryValue(s.Call.Query, p.name)
	case "attr:":
		value = s.Call.Attrs[p.name]
	}
	if p.fold {
		value = strings.Trim(value, " \t")
		return appendLower(dst, value), value != ""
	}
	return append(dst, value...), value != ""
}
