package loadgen

import (
	"math/rand/v2"
	"strconv"
)

// Spread is how checks are spread over the keys.
type Spread uint8

// The spreads.
const (
	Even Spread = iota // every key as likely as any other
	Zipf               // few keys get most: the k-th about 1/k of what the first gets
	Hot                // all on one key
)

// picker draws keys for one client.
type picker struct {
	random *rand.Rand
	zipf   *rand.Zipf
	keys   int
	text   []byte
}

const keyPrefix = "bench:"

// zipfExponent is close to 1, where popularity on the web is usually found;
// the generator wants more than 1.
const zipfExponent = 1.01

func newPicker(s Spread, keys int, seed, client uint64) *picker {
	p := &picker{random: rand.New(rand.NewPCG(seed, client)), keys: keys, text: []byte(keyPrefix)}
	switch s {
	case Hot:
		p.keys = 1
	case Zipf:
		p.zipf = rand.NewZipf(p.random, zipfExponent, 1, uint64(keys-1))
	}
	return p
}

// next returns a key in a string of its own, as a request would bring it.
func (p *picker) next() string {
	var n uint64
	switch {
	case p.zipf != nil:
		n = p.zipf.Uint64()
	case p.keys > 1:
		n = p.random.Uint64N(uint64(p.keys))
	}
	p.text = strconv.AppendUint(p.text[:len(keyPrefix)], n, 10)
	return string(p.text)
}
