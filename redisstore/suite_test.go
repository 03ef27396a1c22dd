package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/storetest"
	"github.com/weirhq/weir/verify"
)

// TestSuite holds the script that production uses, but for where its time comes
// from, to the vectors and to the promises of package verify.
func TestSuite(t *testing.T) {
	for _, binary := range testredis.Installed() {
		t.Run(binary, func(t *testing.T) {
			server := testredis.StartBinary(t, binary)
			storetest.RunOptions(t, opener(server.URL()), verify.Options{Histories: 3000})
		})
	}
}

// opener opens stores on one server that are strangers to each other.
func opener(url string) verify.Open {
	var opened atomic.Int64
	return func(clock *verify.Clock) (weir.Store, error) {
		return redisstore.Open(url, redisstore.Options{
			Prefix:  fmt.Sprintf("suite%d", opened.Add(1)),
			Clock:   clock.Now,
			Timeout: 20 * time.Second, // a busy machine is no failure here
		})
	}
}
