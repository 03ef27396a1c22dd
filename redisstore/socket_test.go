package redisstore_test

import (
	"path/filepath"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/testredis"
	"github.com/weirhq/weir/redisstore"
)

// A server on this machine may be reached by its socket alone.
func TestAUnixSocketIsAStore(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	testredis.Start(t, "unixsocket "+socket)
	store, err := redisstore.Open("unix://"+socket, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, want := range []bool{true, false} {
		if d, err := l.Allow(t.Context(), "k", weir.PerMinute(1)); err != nil || d.Allowed != want || d.Source != "redis" {
			t.Errorf("%+v, %v; want allowed %v by redis", d, err, want)
		}
	}
}
