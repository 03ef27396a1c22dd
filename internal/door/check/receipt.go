package check

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/weirhq/weir"
)

// A receipt leaves this door as a token: everything refund needs to name the
// balance and what was debited, so that any instance on the same store can
// honour it and none has to remember it.
//
//	version │ space │ key │ group │ limit │ name │ id │ cost │ at │ due │ phase │ [tag]
//
// Strings have their length in front, numbers are varints. Version 2 ends in an
// HMAC-SHA-256 tag of 128 bits; where a secret is configured nothing else is
// taken. Without one a caller who can reach the door can make up receipts, as
// such a caller can already charge any key.
//
// The token is not encrypted: it holds the key that its receiver asked about.

const (
	plainReceipt  = 1
	signedReceipt = 2
	tagSize       = 16
	maxReceipt    = 8 << 10 // characters of a token
)

var errReceipt = errors.New("is not a receipt of this deployment")

// receipts writes and reads receipt tokens.
type receipts struct{ secret []byte }

func (r receipts) token(c *weir.Charge) string {
	b := make([]byte, 0, 128)
	if len(r.secret) > 0 {
		b = append(b, signedReceipt)
	} else {
		b = append(b, plainReceipt)
	}
	limit := c.Limit.Named("") // a name may hold what a limit string cannot
	for _, s := range []string{c.Space, c.Key, c.Group, limit.String(), c.Limit.Name()} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, c.Receipt.ID)
	for _, n := range []int64{c.Receipt.Cost, c.Receipt.At, c.Receipt.Due, c.Receipt.Phase} {
		b = binary.AppendVarint(b, n)
	}
	if len(r.secret) > 0 {
		b = append(b, r.tag(b)...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// tag returns the authenticator of b. The label keeps it apart from every other
// use of the secret.
func (r receipts) tag(b []byte) []byte {
	mac := hmac.New(sha256.New, r.secret)
	mac.Write([]byte("weir receipt\x00"))
	mac.Write(b)
	return mac.Sum(nil)[:tagSize]
}

// charge returns the charge that token was written for, its receipt in place.
func (r receipts) charge(token string) (weir.Charge, error) {
	if len(token) > maxReceipt {
		return weir.Charge{}, errReceipt
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) == 0 {
		return weir.Charge{}, errReceipt
	}
	want := byte(plainReceipt)
	if len(r.secret) > 0 {
		want = signedReceipt
		at := len(b) - tagSize
		if at < 0 || !hmac.Equal(b[at:], r.tag(b[:at])) {
			return weir.Charge{}, errReceipt
		}
		b = b[:at]
	}
	if len(b) == 0 || b[0] != want {
		return weir.Charge{}, errReceipt
	}
	return parseReceipt(b[1:])
}

func parseReceipt(b []byte) (c weir.Charge, err error) {
	f := fields{rest: b}
	c.Space, c.Key, c.Group = f.string(), f.string(), f.string()
	limit, name := f.string(), f.string()
	c.Receipt.ID = f.unsigned()
	c.Receipt.Cost, c.Receipt.At, c.Receipt.Due, c.Receipt.Phase = f.number(), f.number(), f.number(), f.number()
	if f.broken || len(f.rest) > 0 || c.Receipt.ID == 0 || c.Receipt.Cost <= 0 || c.Receipt.At < 0 || c.Receipt.Due < 0 || c.Receipt.Phase < 0 {
		return weir.Charge{}, errReceipt
	}
	l, err := weir.ParseLimit(limit)
	if err != nil {
		return weir.Charge{}, errReceipt
	}
	c.Limit = l.Named(name)
	return c, nil
}

// fields takes a receipt apart. After a fault everything is empty.
type fields struct {
	rest   []byte
	broken bool
}

func (f *fields) unsigned() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.broken, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) number() int64 {
	n, size := binary.Varint(f.rest)
	if size <= 0 {
		f.broken, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) string() string {
	n := f.unsigned()
	if n > uint64(len(f.rest)) {
		f.broken, f.rest = true, nil
		return ""
	}
	s := string(f.rest[:n])
	f.rest = f.rest[n:]
	return s
}
