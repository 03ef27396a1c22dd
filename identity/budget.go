package identity

import (
	"net/netip"
	"sync"
	"time"
)

// budget bounds how often keys that nobody has seen are looked up: so many a
// second for each network, and so many for the instance. Both hold one second's
// worth. It is a pair of token buckets kept as the time when each will be full;
// a full one need not be kept.
//
// The instance is asked before the network and both are debited together. So
// networks refused cost the instance nothing, and no more networks are held than
// the instance admits in two seconds, whoever asks from wherever.
type budget struct {
	mu          sync.Mutex
	perNetwork  int64 // nanoseconds a look-up
	perInstance int64
	instance    int64 // full at
	networks    map[netip.Prefix]int64
}

func newBudget(perNetwork, perInstance int) *budget {
	return &budget{
		perNetwork:  max(1, int64(time.Second)/int64(perNetwork)),
		perInstance: max(1, int64(time.Second)/int64(perInstance)),
		networks:    make(map[netip.Prefix]int64),
	}
}

// take debits one look-up at now, or reports that there is none left.
func (b *budget) take(now int64, network netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	instance := max(b.instance, now) + b.perInstance
	full := max(b.networks[network], now) + b.perNetwork
	if instance-now > int64(time.Second) || full-now > int64(time.Second) {
		return false
	}
	b.instance = instance
	if limit := 4 * int(int64(time.Second)/b.perInstance); len(b.networks) >= limit {
		for n, full := range b.networks {
			if full <= now {
				delete(b.networks, n)
			}
		}
	}
	b.networks[network] = full
	return true
}
