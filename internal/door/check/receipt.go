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
//	version │ space │ key │ group │ limit │ name │ id │ for │ cost │ at │ due │ phase │ tag
//
// Strings have their length in front, numbers are varints. The tag is 128 bits
// of an HMAC-SHA-256 under a secret that all instances on a store share. Without
// it a caller could make up receipts: refund one charge many times, or a charge
// that another made. While the secret cannot be had, none are given or taken.
//
// The token is not encrypted: it holds the key that its receiver asked about.

const (
	signedReceipt = 3 // the version
	tagSize       = 16
	maxReceipt    = 8 << 10 // characters of a token
)

var (
	errReceipt  = errors.New("is not a receipt of this deployment")
	errNoSecret = errors.New("receipts cannot be read yet: the store that keeps their secret is away; try again")
)

// receipts writes and reads receipt tokens.
type receipts struct{ secret func() []byte }

// token returns the receipt of c, or "" while there is no secret to sign it with.
func (r receipts) token(c *weir.Charge) string {
	secret := r.secret()
	if len(secret) == 0 {
		return ""
	}
	b := append(make([]byte, 0, 128), signedReceipt)
	limit := c.Limit.Named("") // a name may hold what a limit string cannot
	for _, s := range []string{c.Space, c.Key, c.Group, limit.String(), c.Limit.Name()} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, c.Receipt.ID)
	b = binary.AppendUvarint(b, c.Receipt.For)
	for _, n := range []int64{c.Receipt.Cost, c.Receipt.At, c.Receipt.Due, c.Receipt.Phase} {
		b = binary.AppendVarint(b, n)
	}
	b = append(b, tag(secret, b)...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// tag returns the authenticator of b. The label keeps it apart from every other
// use of the secret.
func tag(secret, b []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("weir receipt\x00"))
	mac.Write(b)
	return mac.Sum(nil)[:tagSize]
}

// charge returns the charge that token was written for, its receipt in place. The
// error is errNoSecret where it cannot be known whether token is good.
func (r receipts) charge(token string) (weir.Charge, error) {
	if len(token) > maxReceipt {
		return weir.Charge{}, errReceipt
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) <= tagSize || b[0] != signedReceipt {
		return weir.Charge{}, errReceipt
	}
	secret := r.secret()
	if len(secret) == 0 {
		return weir.Charge{}, errNoSecret
	}
	at := len(b) - tagSize
	if !hmac.Equal(b[at:], tag(secret, b[:at])) {
		return weir.Charge{}, errReceipt
	}
	return parseReceipt(b[1:at])
}

func parseReceipt(b []byte) (c weir.Charge, err error) {
	f := fields{rest: b}
	c.Space, c.Key, c.Group = f.string(), f.string(), f.string()
	limit, name := f.string(), f.string()
	c.Receipt.ID, c.Receipt.For = f.unsigned(), f.unsigned()
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
