package rls

import (
	"encoding/binary"
	"strings"
)

// A key here is the entries of a descriptor, in order: each key and value with its
// length before it, so that no two descriptors share one by accident, and between
// them a sign that says whether the value is the caller's or the pattern that
// callers share.
const (
	ownValue    = '='
	sharedValue = '*'
)

func appendEntry(to []byte, key string, sign byte, value string) []byte {
	return lengthened(append(lengthened(to, key), sign), value)
}

func lengthened(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// KeyText returns a key of this door for people, such as
// "remote_address=192.0.2.1 path=/login", or false if it is none. It is no longer
// unambiguous.
func KeyText(key string) (string, bool) {
	var words []string
	rest := key
	for rest != "" {
		name, after, ok := cutLengthened(rest)
		if !ok || after == "" || after[0] != ownValue && after[0] != sharedValue {
			return "", false
		}
		value, after, ok := cutLengthened(after[1:])
		if !ok {
			return "", false
		}
		words, rest = append(words, name+"="+value), after
	}
	return strings.Join(words, " "), len(words) > 0
}

func cutLengthened(s string) (text, rest string, ok bool) {
	length, n := binary.Uvarint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
	if n <= 0 || length > uint64(len(s)-n) {
		return "", "", false
	}
	return s[n : n+int(length)], s[n+int(length):], true
}
