package redisconn

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirhq/weir/internal/testredis"
)

// TestConnectionsAsRueidisSpellsThem: 0 is left to the client, and one is one.
func TestConnectionsAsRueidisSpellsThem(t *testing.T) {
	for connections, want := range map[int]int{
		0: 0, 1: oneConnection, 2: 1, 3: 1, 4: 2, 7: 2, 8: 3,
		MostConnections: rueidis.MaxPipelineMultiplex, 1000: rueidis.MaxPipelineMultiplex,
	} {
		var o rueidis.ClientOption
		apply(&o, Settings{Connections: connections})
		if o.PipelineMultiplex != want {
			t.Errorf("%d connections are spelled %d, want %d", connections, o.PipelineMultiplex, want)
		}
	}
}

// TestOneConnectionIsOne: a server that is asked by many at once over a client of
// one connection has one client.
func TestOneConnectionIsOne(t *testing.T) {
	for connections, want := range map[int]int{1: 1, 4: 4} {
		server := testredis.Start(t)
		c, err := Open(server.URL(), Settings{Connections: connections})
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Client()
		if err != nil {
			t.Fatal(err)
		}
		var askers sync.WaitGroup
		for range 64 {
			askers.Go(func() {
				for range 4 {
					if err := client.Do(context.Background(), client.B().Incr().Key("k").Build()).Error(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		askers.Wait()
		list := server.Must(t, "CLIENT", "LIST")
		if n := strings.Count(list, "name=weir "); n != want {
			t.Errorf("%d connections where %d were asked for:\n%s", n, connections, list)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
