package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
)

// MessagePack, as far as the script speaks it: arrays of integers and a few
// short words. It is the one compact encoding that Redis decodes in C.

// appendInt appends a MessagePack integer.
func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= 0 && n < 128:
		return append(b, byte(n))
	case n >= -32 && n < 0:
		return append(b, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n))
}

// appendText appends a text of up to 255 bytes.
func appendText(b []byte, s string) []byte {
	return append(append(b, 0xd9, byte(len(s))), s...)
}

// headSize is how many bytes appendArray appends.
const headSize = 5

// appendArray appends the head of an array of n elements.
func appendArray(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

var errReply = errors.New("the script's reply does not parse")

// reader walks over a reply. The first fault sticks; what is read after it is
// zero.
type reader struct {
	rest string
	err  error
}

func (r *reader) next(n int) string {
	if r.err != nil || len(r.rest) < n {
		r.err = errReply
		r.rest = ""
		return "\x00\x00\x00\x00\x00\x00\x00\x00"
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func bigEndian(s string) (n uint64) {
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}

// array reads the head of an array. What follows says by itself where it ends.
func (r *reader) array() {
	switch t := r.next(1)[0]; {
	case t&0xf0 == 0x90:
	case t == 0xdc:
		r.next(2)
	case t == 0xdd:
		r.next(4)
	default:
		r.err = errReply
	}
}

// value reads an integer, or a word where the script put one. false is "".
func (r *reader) value() (n int64, word string) {
	t := r.next(1)[0]
	switch {
	case t < 0x80:
		return int64(t), ""
	case t >= 0xe0:
		return int64(int8(t)), ""
	case t&0xe0 == 0xa0:
		return 0, r.next(int(t & 0x1f))
	}
	switch t {
	case 0xc2:
		return 0, ""
	case 0xcc:
		return int64(bigEndian(r.next(1))), ""
	case 0xcd:
		return int64(bigEndian(r.next(2))), ""
	case 0xce:
		return int64(bigEndian(r.next(4))), ""
	case 0xcf, 0xd3:
		return int64(bigEndian(r.next(8))), ""
	case 0xd0:
		return int64(int8(r.next(1)[0])), ""
	case 0xd1:
		return int64(int16(bigEndian(r.next(2)))), ""
	case 0xd2:
		return int64(int32(bigEndian(r.next(4)))), ""
	case 0xd9:
		return 0, r.next(int(bigEndian(r.next(1))))
	case 0xda:
		return 0, r.next(int(bigEndian(r.next(2))))
	}
	r.err = errReply
	return 0, ""
}

// int reads an integer.
func (r *reader) int() int64 {
	n, word := r.value()
	if word != "" {
		r.err = errReply
	}
	return n
}
