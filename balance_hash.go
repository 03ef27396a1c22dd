package weir

import "math/bits"

// balanceHash identifies the balance that c falls on, the same in every process. It is
// a hash against mistakes, made for speed: every debit writes one.
func (c *Charge) balanceHash() uint64 {
	h := hashString(c.Limit.tag, c.Key)
	if c.Space != "" {
		h = hashString(h, c.Space)
	}
	return h
}

// tagged returns l with the tag of what it is beside its key and space: hashed once,
// where a limit is made, and not for each charge.
func (l Limit) tagged() Limit {
	if l.unlimited {
		return l // keeps no balance
	}
	l.tag = mix(uint64(l.period)<<16|uint64(l.kind)<<8|uint64(l.unit), 0x9E3779B97F4A7C15)
	if l.name != "" {
		l.tag = hashString(l.tag, l.name) ^ 1 // a name is no zone
	}
	if l.zone != nil {
		l.tag = hashString(l.tag, l.zone.name)
	}
	return l
}

// hashString takes in s, eight bytes at a time, and its length.
func hashString(h uint64, s string) uint64 {
	h = mix(h^uint64(len(s)), 0xD6E8FEB86659FD93)
	for ; len(s) >= 8; s = s[8:] {
		h = mix(h^(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|
			uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56), 0x9E3779B97F4A7C15)
	}
	var last uint64
	for i := range len(s) {
		last |= uint64(s[i]) << (8 * i)
	}
	return mix(h^last, 0xD6E8FEB86659FD93)
}

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
