package regions

import (
	"encoding/binary"
	"errors"

	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/redisstore"
)

// A letter's payload: a version, then balance by balance. Texts have their length
// before them; numbers are varints, so that a small counter takes a byte.
//
//	balance kind|flags n period most [start stop] incarnation out back

const (
	version    = 1
	flagRecent = 1 << 3 // beside the kind
)

// errLetter is a payload that this version does not read.
var errLetter = errors.New("a region's message does not parse; regions must run versions that know each other's")

// encode returns a letter's payload.
func encode(taken []redisstore.Consumption) []byte {
	b := []byte{version}
	for i := range taken {
		b = encodeOne(b, &taken[i])
	}
	return b
}

func encodeOne(b []byte, c *redisstore.Consumption) []byte {
	b = appendText(b, c.Balance)
	kind := byte(c.Kind)
	if c.Recent {
		kind |= flagRecent
	}
	b = append(b, kind)
	for _, n := range []int64{c.N, c.Period, c.Most} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if c.Kind.Window() {
		b = binary.AppendUvarint(b, uint64(c.Start))
		b = binary.AppendUvarint(b, uint64(c.Stop))
	}
	b = appendText(b, c.Incarnation)
	b = binary.AppendUvarint(b, uint64(c.Out))
	return binary.AppendUvarint(b, uint64(c.Back))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decode reads a payload. It comes from another region and is not trusted to be
// right: what is out of range is an error.
func decode(b []byte) (taken []redisstore.Consumption, err error) {
	if len(b) == 0 || b[0] != version {
		return nil, errLetter
	}
	r := payload{rest: b[1:]}
	for len(r.rest) > 0 {
		var c redisstore.Consumption
		c.Balance = r.text(4096)
		kind := r.byte()
		c.Kind, c.Recent = algo.Kind(kind&(flagRecent-1)), kind&flagRecent != 0
		c.N, c.Period, c.Most = r.number(1, 1e9), r.number(1, algo.MaxPeriod), r.number(1, 1e9+1)
		if c.Kind > algo.LeakyBucket {
			return nil, errLetter
		}
		if c.Kind.Window() {
			c.Start, c.Stop = r.number(0, algo.MaxCost), r.number(0, algo.MaxCost)
		}
		c.Incarnation = r.text(32)
		c.Out, c.Back = r.number(0, algo.MaxCost), r.number(0, algo.MaxCost)
		if r.bad {
			return nil, errLetter
		}
		taken = append(taken, c)
	}
	return taken, nil
}

// payload is read from the front; what does not fit makes it bad.
type payload struct {
	rest []byte
	bad  bool
}

func (r *payload) number(least, most int64) int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(most) || int64(n) < least {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

func (r *payload) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *payload) text(most int64) string {
	n := int(r.number(1, most))
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
