package headers

import (
	"strconv"
	"strings"
)

// This file writes the few shapes of structured fields (RFC 9651) that a rate
// limit needs: a list of strings with integer parameters. A library would do it
// with an allocation a value; the tests hold it to one.

// maxInteger is the largest Integer a structured field holds: 15 digits.
const maxInteger = 999_999_999_999_999

// appendMember appends `"name"`, after a comma if it is not the first.
func appendMember(b []byte, first bool, name string) []byte {
	if !first {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	for i := 0; i < len(name); i++ {
		if name[i] == '"' || name[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, name[i])
	}
	return append(b, '"')
}

// appendParam appends `;key=n`.
func appendParam(b []byte, key byte, n int64) []byte {
	b = append(b, ';', key, '=')
	return appendInteger(b, n)
}

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// Slug returns name as it can stand in a field: printable ASCII as it is, every
// other byte percent-encoded. A structured field's String holds nothing else,
// and one bad name would make clients drop the whole field.
func Slug(name string) string {
	bad := 0
	for i := 0; i < len(name); i++ {
		if !printable(name[i]) {
			bad++
		}
	}
	if bad == 0 {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 2*bad)
	for i := 0; i < len(name); i++ {
		if c := name[i]; printable(c) {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func printable(c byte) bool { return c >= 0x20 && c <= 0x7e }
