package check

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

// The bodies of this door are strict: an unknown or repeated field, a number
// that is not whole or anything after the end is refused, with the path of what
// is wrong. encoding/json silently takes the last of two equal fields, matches
// names in any case and mends broken text, so that two readers of one body may
// see two keys. Hence the division of work: encoding/json says whether the text
// is JSON at all and decodes escapes; the walker goes over text that is known to
// be valid and looks at each field itself. Only depth, order and commas of valid
// text are assumed, so the walker has no syntax errors of its own.
//
// A reader that fails returns an *InputError whose Field is relative to where
// it stood; each level above puts its own name in front (within).

// walker is a position in valid JSON text.
type walker struct {
	text []byte
	at   int
}

// newWalker returns a walker at the first value of text, or why text is not
// exactly one JSON value.
func newWalker(text []byte) (*walker, error) {
	if !utf8.Valid(text) {
		return nil, &weir.InputError{Problem: "the body is not valid UTF-8"}
	}
	if !json.Valid(text) {
		return nil, &weir.InputError{Problem: "the body is not one JSON value" + syntaxFault(text)}
	}
	w := &walker{text: text}
	w.space()
	return w, nil
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

// wrong returns the error that the value here is something else.
func wrong(problem string) error { return &weir.InputError{Problem: problem} }

// within puts name in front of the path that err carries.
func within(name string, err error) error {
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

func (w *walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// peek returns the first byte of the value here.
func (w *walker) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

// next steps over the byte here and the space behind it.
func (w *walker) next() {
	w.at++
	w.space()
}

// object reads an object whose fields are among names, in any order, each at
// most once. read is called with the index of the name, at its value.
func (w *walker) object(names []string, read func(field int) error) error {
	var seen uint64
	return w.members(func(name string) error {
		for i, known := range names {
			if name != known {
				continue
			}
			if seen&(1<<i) != 0 {
				return wrong("is given twice")
			}
			seen |= 1 << i
			return read(i)
		}
		return wrong("is no field here; the fields are " + strings.Join(names, " "))
	})
}

// dictionary reads an object of any names, each at most once.
func (w *walker) dictionary(read func(name string) error) error {
	seen := make(map[string]bool)
	return w.members(func(name string) error {
		if seen[name] {
			return wrong("is given twice")
		}
		seen[name] = true
		return read(name)
	})
}

func (w *walker) members(read func(name string) error) error {
	if w.peek() != '{' {
		return wrong("must be an object")
	}
	for w.next(); w.peek() != '}'; {
		name, err := w.word()
		if err != nil {
			return err
		}
		w.next() // the colon
		if err := read(name); err != nil {
			return within(pathName(name), err)
		}
		if w.peek() == ',' {
			w.next()
		}
	}
	w.next()
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

// array reads an array of at most most elements.
func (w *walker) array(most int, read func(i int) error) error {
	if w.peek() != '[' {
		return wrong("must be an array")
	}
	w.next()
	for i := 0; w.peek() != ']'; i++ {
		if i == most {
			return wrong(fmt.Sprintf("holds more than %d elements", most))
		}
		if err := read(i); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
		if w.peek() == ',' {
			w.next()
		}
	}
	w.next()
	return nil
}

// string reads a string.
func (w *walker) string() (string, error) {
	if w.peek() != '"' {
		return "", wrong("must be a string")
	}
	return w.word()
}

// word reads the string that is known to stand here.
func (w *walker) word() (string, error) {
	raw := w.skip()
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	if loneSurrogate(inner) {
		return "", wrong("holds half of a surrogate pair, which is no character")
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
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

// integer reads a whole number.
func (w *walker) integer() (int64, error) {
	if c := w.peek(); c != '-' && (c < '0' || c > '9') {
		return 0, wrong("must be a whole number")
	}
	raw := w.skip()
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, wrong("is too large a number")
	case err != nil:
		return 0, wrong("must be a whole number, without fraction or exponent")
	}
	return n, nil
}

// boolean reads true or false.
func (w *walker) boolean() (bool, error) {
	switch string(w.skip()) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, wrong("must be true or false")
}

// skip steps over the value here, whatever it is, and returns its text.
func (w *walker) skip() []byte {
	start, depth := w.at, 0
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case '"':
			w.at = stringEnd(w.text, w.at)
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			w.at++
		default: // a number or a word
			for w.at < len(w.text) && strings.IndexByte(" \t\r\n,]}", w.text[w.at]) < 0 {
				w.at++
			}
		}
		if depth == 0 {
			break
		}
	}
	raw := w.text[start:w.at]
	w.space()
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
