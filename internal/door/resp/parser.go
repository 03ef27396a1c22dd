package resp

import (
	"bytes"
	"fmt"
)

// Bounds on a command. Keys have 1,024 bytes at most, so that these are generous.
const (
	maxArgs    = 1024
	maxBulk    = 64 << 10
	maxCommand = 128 << 10
	maxInline  = 64 << 10
	maxHeader  = 32 // of *COUNT and $LENGTH, line end included
)

// protocolError ends a connection, once it has been told.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errMultibulk = protocolError("invalid multibulk length")
	errBulk      = protocolError("invalid bulk length")
	errQuotes    = protocolError("unbalanced quotes in request")
	errInline    = protocolError("too big inline request")
	errTooLarge  = protocolError("too big command")
)

// parser cuts commands off the front of a buffer. Between calls it keeps how far
// it has come in a command that is not whole, so that a client which sends one
// byte at a time does not have it read from its start each time.
type parser struct {
	args  [][]byte // of the last command; they point into the buffer
	marks []mark
	left  int // arguments still to come, of an array that has begun
	at    int // how far the command has been read
}

type mark struct{ from, to int }

// next reads one command. It returns how many bytes of buf it takes, or 0 if it
// is not whole; args may be empty, for a line that says nothing.
func (p *parser) next(buf []byte) (args [][]byte, n int, err error) {
	if p.left == 0 {
		if len(buf) == 0 {
			return nil, 0, nil
		}
		if buf[0] != '*' {
			return p.inline(buf)
		}
		count, used, err := header(buf, errMultibulk)
		switch {
		case err != nil || used == 0:
			return nil, 0, err
		case count > maxArgs:
			return nil, 0, errMultibulk
		case count <= 0:
			return nil, used, nil
		}
		p.left, p.at, p.marks = count, used, p.marks[:0]
	}
	for p.left > 0 {
		rest := buf[p.at:]
		if len(rest) == 0 {
			return nil, 0, nil
		}
		if rest[0] != '$' {
			return nil, 0, protocolError(fmt.Sprintf("expected '$', got '%c'", rest[0]))
		}
		size, used, err := header(rest, errBulk)
		switch {
		case err != nil || used == 0:
			return nil, 0, err
		case size < 0 || size > maxBulk:
			return nil, 0, errBulk
		case p.at+used+size+2 > maxCommand:
			return nil, 0, errTooLarge
		case len(rest) < used+size+2:
			return nil, 0, nil
		}
		p.marks = append(p.marks, mark{p.at + used, p.at + used + size})
		p.at += used + size + 2 // like Redis, whatever the two bytes are
		p.left--
	}
	p.args = p.args[:0]
	for _, m := range p.marks {
		p.args = append(p.args, buf[m.from:m.to:m.to])
	}
	return p.args, p.at, nil
}

// header reads a type byte, a number and a line end. used is 0 if they are not
// whole.
func header(buf []byte, wrong protocolError) (number, used int, err error) {
	end := bytes.IndexByte(buf[:min(len(buf), maxHeader)], '\n')
	if end < 0 {
		if len(buf) >= maxHeader {
			return 0, 0, wrong
		}
		return 0, 0, nil
	}
	if end < 2 || buf[end-1] != '\r' {
		return 0, 0, wrong
	}
	n, ok := integer(buf[1 : end-1])
	if !ok || n > maxCommand*maxArgs {
		return 0, 0, wrong
	}
	return int(max(n, -1)), end + 1, nil
}

// integer reads a whole number as Redis does: no plus, no spaces, no leading
// zeros.
func integer(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	n := uint64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n-1) - 1, true
	case !negative && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// inline reads a command as people type it: words, in quotes or not, and a line
// end.
func (p *parser) inline(buf []byte) (args [][]byte, n int, err error) {
	end := bytes.IndexByte(buf[:min(len(buf), maxInline)], '\n')
	if end < 0 {
		if len(buf) >= maxInline {
			return nil, 0, errInline
		}
		return nil, 0, nil
	}
	line := bytes.TrimSuffix(buf[:end], []byte("\r"))
	p.args = p.args[:0]
	for {
		for len(line) > 0 && isSpace(line[0]) {
			line = line[1:]
		}
		if len(line) == 0 {
			return p.args, end + 1, nil
		}
		word, rest, ok := word(line)
		if !ok {
			return nil, 0, errQuotes
		}
		if p.args = append(p.args, word); len(p.args) > maxArgs {
			return nil, 0, errMultibulk
		}
		line = rest
	}
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' || c == 0
}

// word takes one word off a line, by the rules of redis-cli.
func word(line []byte) (out, rest []byte, ok bool) {
	out = []byte{}
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && isSpace(c):
			return out, line[i:], true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			if i+1 < len(line) && !isSpace(line[i+1]) {
				return nil, nil, false
			}
			return out, line[i+1:], true
		case quote == '"' && c == '\\' && i+3 < len(line) && line[i+1] == 'x' && hex(line[i+2]) >= 0 && hex(line[i+3]) >= 0:
			out = append(out, byte(hex(line[i+2])<<4|hex(line[i+3])))
			i += 3
		case quote == '"' && c == '\\' && i+1 < len(line):
			i++
			out = append(out, escaped(line[i]))
		case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			i++
			out = append(out, '\'')
		default:
			out = append(out, c)
		}
	}
	return out, nil, quote == 0
}

func escaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
