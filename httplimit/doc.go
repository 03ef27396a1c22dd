// Package httplimit limits net/http servers and clients with the standard
// library alone.
//
//	l, err := weir.New(weir.Options{})
//	limit := httplimit.Middleware(l, httplimit.ByIP(trusted...), weir.PerMinute(100))
//	mux.Handle("/", limit(handler))
//
// A request that is denied never reaches the handler: it is answered 429 (503 by
// a closed limit without its store) with the fields and the problem+json body of
// package headers. A request that a leaky bucket delays is held for that long
// first. The handler gets the very ResponseWriter the server made, never a
// wrapped one, so Flush, Hijack, ReadFrom, Push, trailers, 1xx answers and
// http.ResponseController work as they do without the middleware.
//
// # Order
//
// The middleware belongs inside of what must also happen to refusals, such as
// CORS (a browser shows a script no 429 without its fields), request logs and
// metrics, and outside of what refusals are to spare: authentication that costs,
// decompression, the handler. It belongs inside of what changes a request's method
// or path, such as an override by X-HTTP-Method-Override: rules look at the method
// they are shown, and that should be the one the handler acts on. A key of who is logged in needs the authentication
// outside; then limit by address outside of that, in a middleware of its own.
//
// # Keys
//
// A Key says whom a request is charged to. Keys of different kinds never meet:
// that of ByHeader("X-Api-Key") with the value "ip:192.0.2.1" is another than
// that of ByIP for this address. A request whose key is missing (no such header,
// or it is given twice) is charged to its address, on a balance that is no real
// key's: never to nobody, and never to one balance that all keyless requests
// share.
//
// Balances belong to key, limit name, algorithm and period: two middlewares that
// give one caller different limits over one period need limits with names, or a
// Space each, if they are to count apart.
//
// # Units
//
// Every time in a response field is in whole seconds, rounded up. See package
// headers.
package httplimit
