package memory

import (
	"math/rand/v2"
	"strconv"
)

// Keys is the key set of a workload.
type Keys struct {
	n int
}

// NewKeys returns a set of n keys.
func NewKeys(n int) Keys { return Keys{n} }

// Len returns the number of keys.
func (k Keys) Len() int { return k.n }

// Each calls f with every key once, as a string of its own. The strings are not
// kept and are never those of Order.
func (k Keys) Each(f func(key string)) {
	for i := range k.n {
		f(keyText(i))
	}
}

// orderLen is how many look-ups an Order holds before it repeats: enough that
// the strings of one pass over many keys are not in the cache for the next.
const orderLen = 1 << 18

// Order returns keys in random order, as fresh strings that lie one behind the
// other, as the text of a request just read would. Callers that run side by
// side need one each, with different seeds.
func (k Keys) Order(seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	var text []byte
	var ends [orderLen]int
	for i := range ends {
		text = append(text, keyText(random.IntN(k.n))...)
		ends[i] = len(text)
	}
	all := string(text)
	order := make([]string, orderLen)
	start := 0
	for i, end := range ends {
		order[i] = all[start:end]
		start = end
	}
	return order
}

// keyText is 16 bytes, about the length of an address or an account id.
func keyText(i int) string {
	digits := strconv.Itoa(i)
	return "user:00000000000"[:16-len(digits)] + digits
}
