package accesslog

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// common reads the common and combined formats of Apache, nginx and Traefik,
// with or without a virtual host in front and anything behind:
//
//	[vhost[:port]] client ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "referer" "agent" "forwarded for"
//
// Apache stamps the beginning of a request and nginx the end; neither says how
// long it took, so the stamp is when it came.
func (p *parser) common(line []byte, r *Record) string {
	open := bracket(line, 0)
	if open < 0 || len(line) < open+29 || line[open+28] != ']' {
		if open = stampAt(line); open < 0 {
			return "no time in brackets"
		}
	}
	us, ok := p.stamps.common(line[open+2 : open+28])
	if !ok {
		return "the time in brackets is none"
	}
	if why := p.who(line[:open], r); why != "" {
		return why
	}
	rest := bytes.TrimLeft(line[open+29:], " ")
	if len(rest) == 0 || rest[0] != '"' {
		return "no request in quotes after the time"
	}
	request, rest, ok := quoted(rest)
	status, rest := word(rest)
	if !ok || !isStatus(status) {
		return "no status after the request"
	}
	r.Stamp = us
	r.setRequest(&p.arena, request)
	_, rest = word(rest) // bytes
	if p.wants != 0 && len(rest) > 0 {
		var text []byte
		text, rest = word(rest)
		r.Referer = p.arena.keep(text)
		text, rest = word(rest)
		r.Agent = p.arena.keep(text)
		// What follows is anybody's; a quoted list of addresses is taken for
		// X-Forwarded-For, as nginx writes it in its main format.
		if rest = bytes.TrimLeft(rest, " "); len(rest) > 0 && rest[0] == '"' {
			if text, _, _ := quoted(rest); startsWithAddress(text) {
				r.Forwarded = p.arena.keep(text)
			}
		}
	}
	return ""
}

// bracket returns where the next " [" stands from at on, or -1. It is found by its
// rarer byte.
func bracket(line []byte, at int) int {
	for {
		i := bytes.IndexByte(line[at:], '[')
		if i < 0 {
			return -1
		}
		if at += i; at > 0 && line[at-1] == ' ' {
			return at - 1
		}
		at++
	}
}

// stampAt finds " [dd/Mon/" where the first bracket is not it.
func stampAt(line []byte) int {
	for at := 0; ; at += 2 {
		if at = bracket(line, at); at < 0 {
			return -1
		}
		if b := line[at:]; len(b) >= 29 && b[28] == ']' && b[4] == '/' && b[8] == '/' {
			return at
		}
	}
}

// who takes the words in front of the time. A user name may contain spaces.
func (p *parser) who(head []byte, r *Record) string {
	first, rest, ok := bytes.Cut(head, []byte{' '})
	second, more, _ := bytes.Cut(rest, []byte{' '})
	if !ok || len(first) == 0 {
		return "fewer than two words before the time"
	}
	client := first
	if len(second) > 1 && (len(more) > 0 && more[0] == '-' || isAddress(second)) && bytes.IndexByte(more, ' ') >= 0 && !isAddress(first) {
		client = second
		if i := bytes.LastIndexByte(first, ':'); i > 0 {
			first = first[:i]
		}
		r.Host = p.arena.keep(first)
	}
	r.setClient(&p.arena, client)
	return ""
}

func isAddress(b []byte) bool {
	if len(b) == 0 || len(b) > 45 || !isDigit(b[0]) && bytes.IndexByte(b, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(unsafe.String(&b[0], len(b))) // not kept
	return err == nil
}

func startsWithAddress(b []byte) bool {
	first, _, _ := bytes.Cut(b, []byte{','})
	return isAddress(bytes.TrimSpace(first))
}
