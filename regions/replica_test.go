package regions

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// TestALetterFollowsTheName: a peer's name that leads to another server after a failover
// is followed, though the one before still answers, as a replica.
func TestALetterFollowsTheName(t *testing.T) {
	t.Parallel()
	home, old, next := testredis.Start(t), testredis.Start(t), testredis.Start(t)
	way := testredis.StartProxy(t, old.Addr)
	s := startService(t, "eu", home, map[string]string{"us": way.URL()}, nil)
	add := func() {
		s.Add(redisstore.Consumption{Balance: "1:{1}:tk", Kind: algo.TokenBucket, N: 1, Period: 1e6, Most: 1, Out: 1})
	}
	add()
	await(t, "the peer is told", func() bool { return s.Stats().Told == 1 })
	host, _, _ := strings.Cut(next.Addr, ":")
	way.Lead(next.Addr)
	old.Must(t, "REPLICAOF", host, "1") // nobody is there: only that it refuses writes counts
	add()
	await(t, "the new primary is told", func() bool { return s.Stats().Told == 2 })
}
