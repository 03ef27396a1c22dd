package redisstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// Stored keys. A balance of group g stands at
//
//	{prefix}1:{g}:<kind><period>:<space length>:<space><name length>:<name><key>
//
// g is a hash of the charge's group mod 1,024, so that charges of one group
// share a cluster slot and no caller's text stands before or inside the braces,
// where it could choose one. Lengths make the parts unambiguous; the key comes
// last and is marked: = as it stands, # hashed because it is long, ! under the
// configured secret. 1 is the version of the layout.
//
// With a secret every key is an HMAC, so that a look into Redis shows no caller.

const (
	groups   = 1024
	longKey  = 128 // bytes; longer keys are stored as 128 bits of SHA-256
	usualKey = 96  // bytes of a stored key, at most, usually
)

var kindLetters = [...]byte{algo.TokenBucket: 't', algo.FixedWindow: 'f', algo.SlidingLog: 'l', algo.SlidingWindow: 's', algo.LeakyBucket: 'q'}

// keyer makes stored keys.
type keyer struct {
	prefix string
	secret []byte
}

// group returns the slot group of a charge.
func (k *keyer) group(c *weir.Charge) uint16 {
	g := c.Group
	if g == "" {
		g = c.Key
	}
	h := uint32(2166136261) // FNV-1a, written out: the library's is ten times the price
	for i := range len(g) {
		h = (h ^ uint32(g[i])) * 16777619
	}
	return uint16(h % groups)
}

// balance returns the key of the balance that c falls on.
func (k *keyer) balance(c *weir.Charge) string {
	return string(k.append(make([]byte, 0, usualKey), c))
}

// append appends that key.
func (k *keyer) append(b []byte, c *weir.Charge) []byte {
	b = append(b, k.prefix...)
	b = append(b, "1:{"...)
	b = strconv.AppendUint(b, uint64(k.group(c)), 10)
	b = append(b, "}:"...)
	b = append(b, kindLetters[c.Limit.Kind()])
	b = append(b, c.Limit.PeriodName()...)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(len(c.Space)), 10)
	b = append(b, ':')
	b = append(b, c.Space...)
	b = strconv.AppendInt(b, int64(len(c.Limit.Name())), 10)
	b = append(b, ':')
	b = append(b, c.Limit.Name()...)
	switch {
	case len(k.secret) > 0:
		mac := hmac.New(sha256.New, k.secret)
		mac.Write([]byte(c.Key))
		b = append(b, '!')
		b = base64.RawURLEncoding.AppendEncode(b, mac.Sum(nil)[:16])
	case len(c.Key) > longKey:
		sum := sha256.Sum256([]byte(c.Key))
		b = append(b, '#')
		b = base64.RawURLEncoding.AppendEncode(b, sum[:16])
	default:
		b = append(b, '=')
		b = append(b, c.Key...)
	}
	return b
}

// beside returns the key of what is kept beside a balance: the same with a kind
// of its own: g for its ledger of refunds, o for its loans, d for the ids of debts
// that were debited, c and r for what regions tell each other.
func beside(balance string, kind byte) string {
	head, rest, _ := strings.Cut(balance, "}:") // the prefix holds no brace
	return head + "}:" + string(kind) + rest
}

// mark returns the key that keeps the fingerprint: one for a server, one for each
// group of a cluster, where it also finds out whether the slot can be written.
func (k *keyer) mark(group uint16, cluster bool) string {
	if !cluster {
		return k.prefix + "1:{secret}"
	}
	return k.prefix + "1:{" + strconv.Itoa(int(group)) + "}:secret"
}

// fingerprint identifies the secret without giving it away.
func (k *keyer) fingerprint() string {
	if len(k.secret) == 0 {
		return "none"
	}
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("weir key secret fingerprint"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
