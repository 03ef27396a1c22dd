package weir

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// GiveID gives the bill a fresh ID. Decide does for what it refuses; whoever refuses
// without a Limiter calls it.
//
// An ID begins with the time in milliseconds since the Unix epoch (48 bits), so
// IDs sort by time and whoever keeps decisions by time knows where to look; 80
// random bits follow. It says nothing about the caller and cannot be guessed.
func (b *Bill) GiveID() {
	binary.BigEndian.PutUint64(b.ID[:8], uint64(time.Now().UnixMilli())<<16|rand.Uint64()>>48)
	binary.BigEndian.PutUint64(b.ID[8:], rand.Uint64())
}

// IDText returns the ID as 32 hexadecimal digits, and "" where there is none.
func (b *Bill) IDText() string {
	if b.ID == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(b.ID[:])
}
