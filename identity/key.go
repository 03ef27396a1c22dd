package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The text of a key is its parts, one after another, each as
//
//	kind length ":" value        =4:acme   =9:192.0.2.1
//
// The length, in bytes of the value, is what joins without ambiguity: no value
// can pass for the end of one part and the beginning of the next. The kind keeps
// what stands in for a value from ever equalling one:
//
//	=  the value
//	#  SHA-256 of a value that is long, or not UTF-8
//	~  the value is missing: the caller's network instead
//	-  the value is missing, and there is no network
const (
	kindValue   = '='
	kindHash    = '#'
	kindNetwork = '~'
	kindNothing = '-'
)

// maxValue bounds a value that is kept as it stands; MaxParts parts of it fit
// the 1,024 bytes a key may have.
const maxValue = 96

// MaxParts is how many parts a key may have.
const MaxParts = 8

// AppendKey appends the text of the key that parts make of s. Missing is the
// index of the first part without a value, or -1. With standIn the caller's
// network takes the place of every missing value; without, dst comes back as it
// was if one is missing.
func AppendKey(dst []byte, parts []Part, s *Source, standIn bool) (key []byte, missing int) {
	start := len(dst)
	missing = -1
	for i, p := range parts {
		at := len(dst)
		value, ok := p.appendValue(dst, s)
		if ok {
			dst = seal(value, at, kindValue)
			continue
		}
		if missing < 0 {
			missing = i
		}
		if !standIn {
			return dst[:start], missing
		}
		if !s.Caller.Network.IsValid() {
			dst = seal(dst[:at], at, kindNothing)
			continue
		}
		dst = seal(AppendNetwork(dst[:at], s.Caller.Network), at, kindNetwork)
	}
	return dst, missing
}

// seal puts kind and length before the value that begins at dst[at].
func seal(dst []byte, at int, kind byte) []byte {
	if len(dst)-at > maxValue || !utf8.Valid(dst[at:]) {
		sum := sha256.Sum256(dst[at:])
		dst = hex.AppendEncode(dst[:at], sum[:])
		kind = kindHash
	}
	size := len(dst) - at
	var space [8]byte
	head := append(strconv.AppendInt(append(space[:0], kind), int64(size), 10), ':')
	dst = append(dst, head...)
	copy(dst[at+len(head):], dst[at:at+size])
	copy(dst[at:], head)
	return dst
}

// NoValue names, given for a part, the balance of callers that have no value
// there. No request has it: header fields and paths hold no zero byte.
const NoValue = "\x00"

// AppendGiven appends the text of a key whose parts somebody spells out, such as
// {"ip": "192.0.2.1", "route": "/login"} for the parts ip and route. Every part
// but all has to be there: a balance that was not meant must not be hit by
// leaving one out. Values are brought to the form that a request would have: an
// address is cut by network, a range has to be what network makes of it. The
// balance that callers without a value share with their network is named by
// NoValue in the part, with ip beside. The error is a *ConfigError that names
// the part.
func AppendGiven(dst []byte, parts []Part, given map[string]string, network func(netip.Addr) netip.Prefix) ([]byte, error) {
	start := len(dst)
	stoodIn := false
	for _, p := range parts {
		at := len(dst)
		value, ok := given[p.String()]
		kind := byte(kindValue)
		switch {
		case ok && value == "":
			return dst[:start], &ConfigError{Field: "parts." + p.String(), Problem: "is empty"}
		case !ok && p.kind == "all":
			value = "all"
		case !ok:
			return dst[:start], &ConfigError{Field: "parts." + p.String(), Problem: "is missing; the key of this rule has it"}
		case value == NoValue && (p.kind == "ip" || p.kind == "all"):
			return dst[:start], &ConfigError{Field: "parts." + p.String(), Problem: "cannot be without a value"}
		case value == NoValue && (given["ip"] == "" || given["ip"] == NoValue):
			return dst[:start], &ConfigError{Field: "parts.ip", Problem: "is missing; callers without " + p.String() + " share a balance with their network"}
		case value == NoValue:
			kind, value, p, stoodIn = kindNetwork, given["ip"], Part{kind: "ip"}, true
		}
		var err error
		if dst, err = p.appendGiven(dst, value, network); err != nil {
			return dst[:start], err
		}
		dst = seal(dst, at, kind)
	}
	for name := range given {
		if !slices.ContainsFunc(parts, func(p Part) bool { return p.String() == name }) && !(stoodIn && name == "ip") {
			return dst[:start], &ConfigError{Field: "parts." + name, Problem: "is not in the key of this rule"}
		}
	}
	return dst, nil
}

func (p Part) appendGiven(dst []byte, value string, network func(netip.Addr) netip.Prefix) ([]byte, error) {
	switch p.kind {
	case "ip":
		prefix, err := ParsePrefix(value)
		if err != nil {
			return dst, &ConfigError{Field: "parts." + p.String(), Problem: quoted(value) + " is neither an address nor a range"}
		}
		ip := prefix.Addr()
		own := network(ip)
		if p.bits != 0 && !ip.Is4() {
			own = NetworkOf(ip, DefaultIPv4Prefix, p.bits)
		}
		if strings.Contains(value, "/") && prefix != own {
			return dst, &ConfigError{Field: "parts." + p.String(), Problem: quoted(value) + " is not how callers are told apart here; that would be " + own.String()}
		}
		return AppendNetwork(dst, own), nil
	case "path":
		return append(dst, CleanPath(value)...), nil
	case "host":
		return append(dst, CleanHost(value)...), nil
	case "method":
		return appendUpper(dst, value), nil
	}
	if p.fold {
		return appendLower(dst, strings.Trim(value, " \t")), nil
	}
	return append(dst, value...), nil
}

// KeyPart is one part of a key's text, read back.
type KeyPart struct {
	Value string // a value, the hex SHA-256 of one, or a network
	// Hashed says that Value is a hash, StandIn that the value was missing and
	// Value is the caller's network, or empty where there was none.
	Hashed, StandIn bool
}

// ReadKey takes the text of a key apart again. ok is false if AppendKey did not
// write it.
func ReadKey(key string) (parts []KeyPart, ok bool) {
	for key != "" {
		size, rest, found := strings.Cut(key[1:], ":")
		n, err := strconv.Atoi(size)
		if !found || err != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != size {
			return nil, false
		}
		p := KeyPart{Value: rest[:n]}
		switch key[0] {
		case kindValue:
		case kindHash:
			p.Hashed = true
		case kindNetwork, kindNothing:
			p.StandIn = true
		default:
			return nil, false
		}
		parts = append(parts, p)
		key = rest[n:]
	}
	return parts, len(parts) > 0
}
