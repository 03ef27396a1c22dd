// Package accesslog reads the access logs that servers and balancers write, as
// they really are: several formats in one file, lines cut short, bytes of TLS
// where a request should be, gz and zstd, in no exact order.
//
//	file ─ magic → gz | zstd | plain ─ lines ─ format by content → Record ─ Files: by time, then line
//
// A line that cannot be read is counted, and the first few are kept with their
// number and what is wrong; it never ends the reading. Memory does not grow with
// the length of a log: lines are read in blocks, and a record holds copies of
// the few fields that a policy can ask for.
package accesslog

import (
	"net/netip"
	"unsafe"
)

// Record is one request that a log tells of. A field that the line does not have
// is empty.
type Record struct {
	// At is when the request came, in microseconds since the Unix epoch: Stamp,
	// less Took where the format stamps the end of a request.
	At    int64
	Stamp int64 // as written
	Took  int64 // microseconds; 0 if it is not known or not to be taken off
	// Coarse says that the stamp tells no more than the second.
	Coarse bool

	File int   // which of the files, from 0 on
	Line int64 // in its file, from 1 on

	// Client is who asked: an address without its port, or a name as it stands.
	// IP is the address, invalid for a name or none.
	Client string
	IP     netip.Addr

	Method    string
	Path      string // raw, with its query cut off
	Query     string // without "?"
	Host      string
	Agent     string
	Referer   string
	Forwarded string // X-Forwarded-For
}

// Wants are the fields of a record that cost time to read and that few ask for.
type Wants uint8

// The fields.
const (
	WantAgent Wants = 1 << iota
	WantReferer
	WantForwarded
)

// arena holds the text of a batch of records. A record of a few fields would
// otherwise be as many allocations.
type arena struct{ room []byte }

const arenaSize = 64 << 10

// keep returns a copy of b as a string; that of - is empty.
func (a *arena) keep(b []byte) string {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return ""
	}
	if len(b) > cap(a.room)-len(a.room) {
		// The strings made so far hold on to the old room.
		a.room = make([]byte, 0, max(2*cap(a.room), arenaSize, len(b)))
	}
	at := len(a.room)
	a.room = append(a.room, b...)
	// Nothing writes to these bytes again before the batch is used anew.
	return unsafe.String(&a.room[at], len(b))
}

// methods are kept once for all records.
var methods = [...]string{"GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH", "CONNECT", "TRACE", "PROPFIND"}

func (a *arena) method(b []byte) string {
	for _, m := range methods {
		if string(b) == m {
			return m
		}
	}
	return a.keep(b)
}

// setClient takes a client as written: an address, with or without brackets or
// port, or a name.
func (r *Record) setClient(a *arena, b []byte) {
	r.Client, r.IP = "", netip.Addr{}
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return
	}
	text := unsafe.String(&b[0], len(b)) // not kept
	if ip, err := netip.ParseAddr(text); err == nil {
		r.IP = ip.Unmap()
	} else if pair, err := netip.ParseAddrPort(text); err == nil {
		r.IP = pair.Addr().Unmap()
		b = b[:lastColon(b)]
	} else if len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']' {
		if ip, err := netip.ParseAddr(text[1 : len(b)-1]); err == nil {
			r.IP = ip
		}
	}
	if len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']' {
		b = b[1 : len(b)-1]
	}
	r.Client = a.keep(b[:min(len(b), maxName)])
}

// maxName bounds the name of a client: what is longer is no name of anybody.
const maxName = 256

func lastColon(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == ':' {
			return i
		}
	}
	return len(b)
}
