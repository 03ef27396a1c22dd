package headers

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file reads structured fields (RFC 9651) as far as upstreams use them for
// rate limits: a list of names with parameters, and the dictionary of draft-07.
// It is strict, as the standard asks: one fault and the whole field is ignored.

// Member is one policy of a RateLimit or RateLimit-Policy field.
type Member struct {
	Name   string // a String, or a Token as a proposed revision has it
	Params []Param
}

// Param is one parameter. Value is an int64, a string, a []byte, a bool, a
// Token, a Decimal, a Date or a Display.
type Param struct {
	Key   string
	Value any
}

// The types of parameters that are no Go types of their own.
type (
	// Token is a word without quotes.
	Token string
	// Decimal is a number as it was written.
	Decimal string
	// Date is in seconds since the Unix epoch.
	Date int64
	// Display is Unicode text.
	Display string
)

// Integer returns the parameter with that key if it is an integer ≥ 0.
func (m *Member) Integer(key string) (int64, bool) {
	for _, p := range m.Params {
		if p.Key == key {
			n, ok := p.Value.(int64)
			return n, ok && n >= 0
		}
	}
	return 0, false
}

// ParseList reads a field that is a list of names with parameters, given as its
// lines in order. The error says at which byte of the joined lines it is broken;
// such a field is to be ignored whole.
func ParseList(lines []string) ([]Member, error) {
	p := fieldParser{text: strings.Join(lines, ", ")}
	var list []Member
	p.spaces()
	for p.at < len(p.text) {
		m := Member{Name: p.name()}
		m.Params = p.params()
		list = append(list, m)
		if !p.comma() {
			break
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return list, nil
}

// ParseDictionary reads a field that is a dictionary of plain values, as the
// RateLimit field of draft-07: limit=100, remaining=50, reset=5. Parameters of
// its values are read over.
func ParseDictionary(lines []string) ([]Param, error) {
	p := fieldParser{text: strings.Join(lines, ", ")}
	var dict []Param
	p.spaces()
	for p.at < len(p.text) {
		entry := Param{Key: p.key(), Value: true}
		if p.take('=') {
			entry.Value = p.bareItem()
		}
		p.params()
		dict = put(dict, entry)
		if !p.comma() {
			break
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return dict, nil
}

// put adds an entry, or overwrites the one with its key: the last wins.
func put(list []Param, entry Param) []Param {
	for i := range list {
		if list[i].Key == entry.Key {
			list[i].Value = entry.Value
			return list
		}
	}
	return append(list, entry)
}

// fieldParser walks over text. After the first error it stands still: at is then
// the end, so that every loop ends.
type fieldParser struct {
	text string
	at   int
	err  error
}

func (p *fieldParser) fail(problem string) {
	if p.err == nil {
		p.err = fmt.Errorf("structured field: byte %d: %s", p.at, problem)
	}
	p.at = len(p.text)
}

// peek returns the next byte, or 0 at the end; 0 is valid nowhere.
func (p *fieldParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *fieldParser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// while takes the bytes that are in the class.
func (p *fieldParser) while(in func(byte) bool) string {
	start := p.at
	for p.at < len(p.text) && in(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *fieldParser) spaces() { p.while(func(c byte) bool { return c == ' ' }) }

// comma takes the comma between two members, and reports whether another member
// must follow.
func (p *fieldParser) comma() bool {
	blank := func(c byte) bool { return c == ' ' || c == '\t' }
	p.while(blank)
	if p.at == len(p.text) {
		return false
	}
	if !p.take(',') {
		p.fail("expected a comma")
		return false
	}
	p.while(blank)
	if p.at == len(p.text) {
		p.fail("ends in a comma")
		return false
	}
	return true
}

func (p *fieldParser) name() string {
	switch v := p.bareItem().(type) {
	case string:
		return v
	case Token:
		return string(v)
	}
	p.fail("a member is no name")
	return ""
}

func (p *fieldParser) params() (list []Param) {
	for p.take(';') {
		p.spaces()
		entry := Param{Key: p.key(), Value: true}
		if p.take('=') {
			entry.Value = p.bareItem()
		}
		list = put(list, entry)
	}
	return list
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }
func alpha(c byte) bool { return lower(c) || 'A' <= c && c <= 'Z' }

func (p *fieldParser) key() string {
	if c := p.peek(); !lower(c) && c != '*' {
		p.fail("expected a key in lower case")
		return ""
	}
	return p.while(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

func (p *fieldParser) bareItem() any {
	switch c := p.peek(); {
	case c == '"':
		return p.quoted()
	case c == '-' || digit(c):
		return p.number()
	case c == '*' || alpha(c):
		return Token(p.while(func(c byte) bool {
			return alpha(c) || digit(c) || strings.IndexByte(":/!#$%&'*+-.^_`|~", c) >= 0
		}))
	case c == ':':
		return p.bytes()
	case c == '?':
		p.at++
		if b := p.peek(); b == '0' || b == '1' {
			p.at++
			return b == '1'
		}
		p.fail("a boolean is ?0 or ?1")
	case c == '@':
		p.at++
		if n, ok := p.number().(int64); ok {
			return Date(n)
		}
		p.fail("a date is a whole number of seconds")
	case c == '%':
		return p.display()
	default:
		p.fail("expected a value")
	}
	return nil
}

func (p *fieldParser) quoted() string {
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			return b.String()
		case !printable(c):
			p.fail("a string holds printable ASCII alone")
		case c == '\\':
			p.at++
			if c = p.peek(); c != '"' && c != '\\' {
				p.fail(`a string escapes " and \ alone`)
				return ""
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	p.fail("a string does not end")
	return ""
}

func (p *fieldParser) number() any {
	start := p.at
	p.take('-')
	whole := p.while(digit)
	if whole == "" {
		p.fail("expected a digit")
		return nil
	}
	if !p.take('.') {
		if len(whole) > 15 {
			p.fail("an integer has at most 15 digits")
			return nil
		}
		n, err := strconv.ParseInt(p.text[start:p.at], 10, 64)
		if err != nil {
			p.fail("not an integer")
		}
		return n
	}
	if part := p.while(digit); part == "" || len(part) > 3 || len(whole) > 12 {
		p.fail("a decimal has at most 12 digits before the point and 1 to 3 after it")
		return nil
	}
	return Decimal(p.text[start:p.at])
}

func (p *fieldParser) bytes() any {
	p.at++
	text := p.while(func(c byte) bool { return alpha(c) || digit(c) || c == '+' || c == '/' || c == '=' })
	if !p.take(':') {
		p.fail("a byte sequence does not end")
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		p.fail("a byte sequence is not base64")
		return nil
	}
	return b
}

func (p *fieldParser) display() any {
	p.at++
	if !p.take('"') {
		p.fail(`a display string begins with %"`)
		return nil
	}
	var b []byte
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			p.at++
			if !utf8.Valid(b) {
				p.fail("a display string is not UTF-8")
			}
			return Display(b)
		case !printable(c):
			p.fail("a display string holds printable ASCII alone")
		case c == '%':
			const hex = "0123456789abcdef"
			if p.at+2 >= len(p.text) || strings.IndexByte(hex, p.text[p.at+1]) < 0 || strings.IndexByte(hex, p.text[p.at+2]) < 0 {
				p.fail("a display string encodes as % and two digits")
				return nil
			}
			b = append(b, byte(strings.IndexByte(hex, p.text[p.at+1])<<4|strings.IndexByte(hex, p.text[p.at+2])))
			p.at += 2
		default:
			b = append(b, c)
		}
	}
	p.fail("a display string does not end")
	return nil
}
