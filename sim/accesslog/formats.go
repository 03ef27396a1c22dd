package accesslog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// parser reads lines one at a time. What it remembers from line to line makes it
// faster, but for columns, which the format needs.
type parser struct {
	arena   arena
	stamps  stamps
	columns columns
	scratch []byte
	wants   Wants // formats may leave out the rest
	allowed []int // the formats asked for, in the order of trying
	last    int   // index into formats of what fitted last, or -1
}

// format is one way to write a line. read returns what is wrong with it, or "".
type format struct {
	names []string // what --format calls it
	read  func(p *parser, line []byte, r *Record) string
	looks func(line []byte) bool // whether a line could be one at all
}

// formats are in the order of trying: what is certain by its first bytes first.
var formats = []format{
	{
		names: []string{"json", "nginx-json", "caddy", "traefik", "envoy"},
		read:  (*parser).jsonLine, looks: func(line []byte) bool { return line[0] == '{' },
	},
	{
		names: []string{"envoy"},
		read:  (*parser).envoy, looks: func(line []byte) bool { return line[0] == '[' && len(line) > 1 && isDigit(line[1]) },
	},
	{
		names: []string{"alb"},
		read:  (*parser).alb, looks: func(line []byte) bool { return looksALB(line) },
	},
	{
		names: []string{"common", "combined", "vhost", "nginx", "apache", "traefik"},
		read:  (*parser).common, looks: func(line []byte) bool { return bytes.Contains(line, []byte(" [")) },
	},
	{
		names: []string{"haproxy"},
		read:  (*parser).haproxy, looks: func(line []byte) bool { return haproxyStampAt(line) >= 0 },
	},
	{
		names: []string{"w3c", "iis", "cloudfront"},
		read:  (*parser).w3c, looks: func([]byte) bool { return true },
	},
}

// noColumns is what is wrong with a W3C line before its columns are named, which
// any line at all could be.
const noColumns = "no #Fields line names the columns"

func looksALB(line []byte) bool {
	kind, _, _ := bytes.Cut(line[:min(len(line), 8)], []byte{' '})
	switch string(kind) {
	case "http", "https", "h2", "grpcs", "ws", "wss":
		return true
	}
	return false
}

// FormatNames are the words that Options.Format takes, in no order of weight.
func FormatNames() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.names...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newParser(name string, wants Wants) (*parser, error) {
	p := &parser{last: -1, wants: wants, scratch: make([]byte, 0, 64)}
	for i, f := range formats {
		if name == "" || slices.Contains(f.names, name) {
			p.allowed = append(p.allowed, i)
		}
	}
	if len(p.allowed) == 0 {
		return nil, fmt.Errorf("unknown format %q; there are %s", name, strings.Join(FormatNames(), " "))
	}
	return p, nil
}

// request reads a line that is neither empty nor a comment into an empty r. why is what is wrong
// with it, or "".
func (p *parser) request(line []byte, r *Record) (why string) {
	line = withoutPrefix(line)
	if len(line) == 0 {
		return "an empty line"
	}
	if p.last >= 0 {
		if why = formats[p.last].read(p, line, r); why == "" {
			return ""
		}
	}
	for _, i := range p.allowed {
		if i == p.last || !formats[i].looks(line) {
			continue
		}
		other := p.try(i, line, r)
		if other == "" {
			p.last = i
			return ""
		}
		if why == "" {
			why = other
		}
	}
	if stranger := strange(line); stranger != "" && len(p.allowed) > 1 {
		return stranger
	}
	if why == "" || why == noColumns && len(p.allowed) > 1 {
		return "not a line of a known format"
	}
	return why
}

func (p *parser) try(i int, line []byte, r *Record) string {
	*r = Record{}
	return formats[i].read(p, line, r)
}

// strange names what is no access log and is often taken for one, or "".
func strange(line []byte) string {
	has := func(s string) bool { return bytes.Contains(line, []byte(s)) }
	switch {
	case len(line) > 20 && line[4] == '/' && line[7] == '/' && line[19] == ' ' && has(": *"), line[0] == '[' && has("] [client "), line[0] == '[' && has("] [pid "):
		return "a line of an error log, which does not tell of all requests; take the access log"
	case line[0] == '<':
		return "XML; export it as lines of a log"
	case bytes.HasPrefix(line, []byte("time:")) || bytes.HasPrefix(line, []byte("host:")) && has("\t"):
		return "LTSV, which is not read; have the server write JSON"
	case bytes.Count(line, []byte{'\t'}) > 10 && isDigit(line[0]):
		return "columns by tabs without a #Fields line to name them, as in a part of a CloudFront log"
	}
	return ""
}
