package goredis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/redisstore/goredis"
	"github.com/weirhq/weir/storetest"
	"github.com/weirhq/weir/verify"
)

// The suite over go-redis: the same script, another client.
func TestSuite(t *testing.T) {
	server := testredis.Start(t)
	var opened atomic.Int64
	storetest.RunOptions(t, func(clock *verify.Clock) (weir.Store, error) {
		return goredis.Open(&redis.Options{Addr: server.Addr}, redisstore.Options{
			Prefix: fmt.Sprint("suite", opened.Add(1)), Clock: clock.Now, Timeout: 20 * time.Second,
		})
	}, verify.Options{Histories: 200})
}

func TestAClientThatWouldChargeTwiceIsRefused(t *testing.T) {
	server := testredis.Start(t)
	for name, o := range map[string]*redis.Options{
		"retries":  {Addr: server.Addr, ContextTimeoutEnabled: true},
		"contexts": {Addr: server.Addr, MaxRetries: -1},
	} {
		client := redis.NewClient(o)
		if _, err := goredis.New(client, redisstore.Options{}); err == nil {
			t.Errorf("%s: a client with go-redis's defaults was accepted", name)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
