package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Bad is a line that could not be read.
type Bad struct {
	File int
	Line int64
	Why  string
}

// Counts is what became of the lines of one file.
type Counts struct {
	Requests int64 // read
	Bad      int64 // not read
	Aside    int64 // comments, headers and empty lines
}

// Reader reads one log. It is not safe for concurrent use.
type Reader struct {
	Counts
	Examples []Bad // the first few lines that could not be read

	file   int
	lines  *lines
	parser *parser
	line   int64
	close  func()
}

// maxBad is how many bad lines of a file are kept to be shown.
const maxBad = 5

// NewReader reads a log from a stream, compressed with gzip or zstd or not at
// all. file is what its records say of where they are from. Close frees what
// decompressing takes, and not the stream.
func NewReader(from io.Reader, file int, o Options) (*Reader, error) {
	p, err := newParser(o.Format, o.Wants)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, parser: p, close: func() {}}
	head := bufio.NewReaderSize(from, 64<<10)
	magic, err := head.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var plain io.Reader = head
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		plain = z
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine and a bounded window: a header must not choose how much
		// memory is taken.
		z, err := zstd.NewReader(head, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		plain, r.close = z, z.Close
	}
	r.lines = newLines(plain)
	return r, nil
}

// Close frees what decompressing takes.
func (r *Reader) Close() { r.close() }

// Read reads records into to, which must be empty ones, until it is full or no
// more are to be had. The error is io.EOF when the log has ended and nothing was
// read, or the stream's; what was read before it stands.
func (r *Reader) Read(to []Record) (n int, err error) {
	for n < len(to) {
		line, tooLong, err := r.lines.next()
		if err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		r.line++
		if r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		switch {
		case tooLong:
			r.bad("longer than 1 MiB")
			continue
		case len(line) == 0:
			r.Aside++
			continue
		case line[0] == '#':
			r.parser.directive(line)
			r.Aside++
			continue
		}
		record := &to[n]
		if why := r.parser.request(line, record); why != "" {
			r.bad(why)
			*record = Record{}
			continue
		}
		record.At = max(record.Stamp-record.Took, 0)
		record.Coarse = r.parser.stamps.coarse && record.Took == 0
		record.File, record.Line = r.file, r.line
		r.Requests++
		n++
	}
	return n, nil
}

func (r *Reader) bad(why string) {
	r.Bad++
	if len(r.Examples) < maxBad {
		r.Examples = append(r.Examples, Bad{r.file, r.line, why})
	}
}
