package accesslog

import (
	"bytes"
	"io"
)

// lines cuts a stream into lines without their ends, in a block of its own. A
// line longer than maxLine is passed over to its end: it is no request, and
// memory must not grow with what a broken file calls a line.
type lines struct {
	from  io.Reader
	block []byte
	at    int // what has been given out
	err   error
}

const (
	blockSize = 256 << 10
	maxLine   = 1 << 20
)

func newLines(from io.Reader) *lines { return &lines{from: from, block: make([]byte, 0, blockSize)} }

// next returns the next line, which is valid until the call after. tooLong says
// that it was passed over. The error is io.EOF at the end, or the stream's.
func (l *lines) next() (line []byte, tooLong bool, err error) {
	for searched := 0; ; {
		rest := l.block[l.at:]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			l.at += searched + i + 1
			return trimEnd(rest[:searched+i]), tooLong, nil
		}
		if l.err != nil {
			l.at = len(l.block)
			if len(rest) == 0 && !tooLong {
				return nil, false, l.err
			}
			return trimEnd(rest), tooLong, nil
		}
		if len(rest) > maxLine {
			tooLong = true
			l.at, rest = len(l.block), nil
		}
		searched = len(rest)
		l.fill()
	}
}

// fill moves what is left to the front and reads more.
func (l *lines) fill() {
	rest := copy(l.block[:cap(l.block)], l.block[l.at:])
	l.block, l.at = l.block[:rest], 0
	if rest == cap(l.block) {
		l.block = append(make([]byte, 0, 2*cap(l.block)), l.block...)
	}
	for range 100 {
		n, err := l.from.Read(l.block[len(l.block):cap(l.block)])
		l.block = l.block[:len(l.block)+n]
		if err != nil {
			l.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	l.err = io.ErrNoProgress
}

func trimEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
