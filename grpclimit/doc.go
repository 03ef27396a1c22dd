// Package grpclimit limits gRPC servers and clients.
//
//	l, err := weir.New(weir.Options{})
//	limit, err := grpclimit.New(l, grpclimit.Options{Rules: []grpclimit.Rule{
//		{Key: grpclimit.ByIP(trusted...), Limits: []weir.Limit{weir.PerMinute(100)}},
//	}})
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// A call that is denied never reaches its handler. It ends with RESOURCE_EXHAUSTED
// (UNAVAILABLE by a closed limit without its store, PERMISSION_DENIED where no
// wait will do), with google.rpc.RetryInfo and QuotaFailure as details. A stream
// is charged when it opens and, if asked for, for each message of the client.
//
// The RateLimit fields and the pushback, grpc-retry-pushback-ms, go out as
// trailers. Never as headers: a client retries only an answer that is nothing but
// trailers. Pushback is the very wait of RetryInfo, jittered once, and -1, "do not
// retry", where no wait will do.
//
// Health checks and reflection are not limited: a probe that is refused takes the
// server out of service.
//
// A Client waits until its own limit admits a call, and sends a server nothing
// while that has asked for quiet.
//
// Keys and their rules are those of package httplimit: kinds of keys never meet,
// and who lacks a key is charged by address.
package grpclimit
