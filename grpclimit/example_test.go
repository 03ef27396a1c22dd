package grpclimit_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/grpclimit"
)

// A server: every address 100 calls a minute, and whoever shows an API key as
// many more as it pays for.
func ExampleNew() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit, err := grpclimit.New(l, grpclimit.Options{Rules: []grpclimit.Rule{
		{Key: grpclimit.ByIP(), Limits: []weir.Limit{weir.PerMinute(100).Named("address")}},
		{Key: grpclimit.ByMetadata("x-api-key"), Limits: []weir.Limit{weir.PerMinute(1000).Named("key")}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	server.Stop()
	fmt.Println(len(server.GetServiceInfo()), "services")
	// Output: 0 services
}

// A client that calls no faster than 50 times a second.
func ExampleNewClient() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := []weir.Charge{weir.PerSecond(50).Charge("billing")}
	wait, err := grpclimit.NewClient(grpclimit.ClientOptions{
		Limiter: l, Charges: func(context.Context, string) []weir.Charge { return charges },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := []grpc.DialOption{grpc.WithChainUnaryInterceptor(wait.Unary), grpc.WithChainStreamInterceptor(wait.Stream)}
	fmt.Println(len(options), "interceptors")
	// Output: 2 interceptors
}
