package layer_test

import (
	"context"
	"fmt"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer"
	"github.com/weirhq/weir/redisstore"
)

// Balances in Redis, shared by every process that uses it, behind the layers
// that answer what they can without it.
func ExampleStack() {
	ctx := context.Background()

	store, err := redisstore.Open("redis://127.0.0.1:6379/0", redisstore.Options{})
	if err != nil {
		fmt.Println(err) // a URL that makes no sense, or refused credentials; a Redis that is away is none
		return
	}
	layers, err := layer.Stack(store, layer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := weir.New(weir.Options{Store: layers})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	d, err := l.Allow(ctx, "user:42", weir.PerMinute(100))
	fmt.Println(d.Allowed, err)
}
