package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir"
)

// Bodies are strict: an unknown or repeated field, a number
// that is not whole or anything after the end is refused, with the path of what
// is wrong. encoding/json silently takes the last of two equal fields, matches
// names in any case and mends broken text, so that two readers of one body may
// see two keys. Hence the division of work: encoding/json says whether the text
// is JSON at all and decodes escapes; Body goes over text that is known to
// be valid and looks at each field itself. Only depth, order and commas of valid
// text are assumed, so Body has no syntax errors of its own.
//
// A reader that fails returns an *InputError whose Field is relative to where
// it stood; each level above puts its own name in front (Within).

// Body is a position in valid JSON text.
type Body struct {
	text []byte
	at   int
	last *lastLimit // or nil
}

// newBody returns a Body at the first value of text, or why text is not
// exactly one JSON value.
func newBody(text []byte) (Body, error) {
	if !utf8.Valid(text) {
		return Body{}, &weir.InputError{Problem: "the body is not valid UTF-8"}
	}
	if !json.Valid(text) {
		return Body{}, &weir.InputError{Problem: "the body is not one JSON value" + syntaxFault(text)}
	}
	b := Body{text: text}
	b.space()
	return b, nil
}

// syntaxFault says what is wrong with text, which is not valid.
func syntaxFault(text []byte) string {
	var value json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, &value); errors.As(err, &syntax) {
		return fmt.Sprintf(": %s at byte %d", syntax, syntax.Offset)
	}
	return ""
}

// Wrong returns the error that the value here is something else.
func Wrong(problem string) error { return &weir.InputError{Problem: problem} }

// Within puts name in front of the path that err carries.
func Within(name string, err error) error {
	var input *weir.InputError
	if !errors.As(err, &input) {
		return err
	}
	switch {
	case input.Field == "":
		return &weir.InputError{Field: name, Problem: input.Problem}
	case input.Field[0] == '[':
		return &weir.InputError{Field: name + input.Field, Problem: input.Problem}
	}
	return &weir.InputError{Field: name + "." + input.Field, Problem: input.Problem}
}

func (b *Body) space() {
	for b.at < len(b.text) {
		switch b.text[b.at] {
		case ' ', '\t', '\r', '\n':
			b.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the value here.
func (b *Body) peek() byte {
	if b.at < len(b.text) {
		return b.text[b.at]
	}
	return 0
}

// next steps over the byte here and the space behind it.
func (b *Body) next() {
	b.at++
	b.space()
}

// Object reads an object whose fields are among names, in any order, each at
// most once. read is called with the index of the name, at its value.
func (b *Body) Object(names []string, read func(field int) error) error {
	var seen uint64
	return b.members(func(name []byte) error {
		for i, known := range names {
			if string(name) != known {
				continue
			}
			if seen&(1<<i) != 0 {
				return Wrong("is given twice")
			}
			seen |= 1 << i
			return read(i)
		}
		return Wrong("is no field here; the fields are " + strings.Join(names, " "))
	})
}

// Dictionary reads an object of any names, each at most once.
func (b *Body) Dictionary(read func(name string) error) error {
	seen := make(map[string]bool)
	return b.members(func(text []byte) error {
		name := string(text)
		if seen[name] {
			return Wrong("is given twice")
		}
		seen[name] = true
		return read(name)
	})
}

func (b *Body) members(read func(name []byte) error) error {
	if b.peek() != '{' {
		return Wrong("must be an object")
	}
	for b.next(); b.peek() != '}'; {
		name, err := b.word()
		if err != nil {
			return err
		}
		b.next() // the colon
		if err := read(name); err != nil {
			return Within(pathName(string(name)), err)
		}
		if b.peek() == ',' {
			b.next()
		}
	}
	b.next()
	return nil
}

// pathName returns name as it stands in a path.
func pathName(name string) string {
	plain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`.[]"\`, r)
	}) < 0
	const most = 64
	switch {
	case len(name) > most:
		return strconv.Quote(strings.ToValidUTF8(name[:most], "")) + "…"
	case plain:
		return name
	}
	return strconv.Quote(name)
}

// Array reads an array of at most most elements.
func (b *Body) Array(most int, read func(i int) error) error {
	if b.peek() != '[' {
		return Wrong("must be an array")
	}
	b.next()
	for i := 0; b.peek() != ']'; i++ {
		if i == most {
			return Wrong(fmt.Sprintf("holds more than %d elements", most))
		}
		if err := read(i); err != nil {
			return Within("["+strconv.Itoa(i)+"]", err)
		}
		if b.peek() == ',' {
			b.next()
		}
	}
	b.next()
	return nil
}

// Text reads a string.
func (b *Body) Text() (string, error) {
	if b.peek() != '"' {
		return "", Wrong("must be a string")
	}
	word, err := b.word()
	return string(word), err
}

// word reads the string that is known to stand here. It may be part of the body.
func (b *Body) word() ([]byte, error) {
	raw := b.skip()
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	if loneSurrogate(inner) {
		return nil, Wrong("holds half of a surrogate pair, which is no character")
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err
}

// loneSurrogate reports whether the inside of a JSON string escapes half of a
// surrogate pair. encoding/json would make U+FFFD of it, and so one key of many.
func loneSurrogate(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++
		if s[i] != 'u' {
			continue
		}
		first := s[i+1 : i+5]
		i += 4
		switch surrogate(first) {
		case 0xDC:
			return true
		case 0xD8:
			if i+6 >= len(s) || s[i+1] != '\\' || s[i+2] != 'u' || surrogate(s[i+3:i+7]) != 0xDC {
				return true
			}
			i += 6
		}
	}
	return false
}

// surrogate returns 0xD8 for four hex digits of a high surrogate, 0xDC for
// those of a low one, else 0.
func surrogate(hex []byte) uint64 {
	n, err := strconv.ParseUint(string(hex), 16, 16)
	if err != nil || n>>8 < 0xD8 || n>>8 > 0xDF {
		return 0
	}
	return n >> 8 & 0xDC
}

// Whole reads a whole number.
func (b *Body) Whole() (int64, error) {
	if c := b.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, Wrong("must be a whole number")
	}
	raw := b.skip()
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, Wrong("is too large a number")
	case err != nil:
		return 0, Wrong("must be a whole number, without fraction or exponent")
	}
	return n, nil
}

// Truth reads true or false.
func (b *Body) Truth() (bool, error) {
	switch string(b.skip()) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, Wrong("must be true or false")
}

// skip steps over the value here, whatever it is, and returns its text.
func (b *Body) skip() []byte {
	start, depth := b.at, 0
	for b.at < len(b.text) {
		switch b.text[b.at] {
		case '"':
			b.at = stringEnd(b.text, b.at)
		case '{', '[':
			depth++
			b.at++
		case '}', ']':
			depth--
			b.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			b.at++
		default: // a number or a word
			for b.at < len(b.text) && strings.IndexByte(" \t\r\n,]}", b.text[b.at]) < 0 {
				b.at++
			}
		}
		if depth == 0 {
			break
		}
	}
	raw := b.text[start:b.at]
	b.space()
	return raw
}

// stringEnd returns the index behind the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// Alone calls read at the value here and ends behind that value, whether read
// could make something of it or not.
func (b *Body) Alone(read func() error) error {
	start := b.at
	err := read()
	if err != nil {
		b.at = start
		b.skip()
	}
	return err
}
