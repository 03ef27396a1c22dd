package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
)

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }

// ask sends h a request and prints what a client looks at.
func ask(h http.Handler, peer string, fields ...string) {
	w := get(h, peer, fields...)
	fmt.Println(w.Code, w.Header().Get("RateLimit"))
}

func ExampleMiddleware() {
	l, err := weir.New(weir.Options{}) // in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	limit := httplimit.Middleware(l, httplimit.ByIP(netip.MustParsePrefix("10.0.0.0/8")), weir.PerMinute(2))
	mux := http.NewServeMux()
	mux.Handle("/", limit(http.HandlerFunc(hello)))

	for range 3 {
		w := get(mux, "10.0.0.1:4711", "X-Forwarded-For", "203.0.113.7")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// A bill over address and user: both admit a request, or neither is charged.
// Requests without a user are charged to their address.
func ExampleNew() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()

	wrap, err := httplimit.New(l, httplimit.Options{
		Rules: []httplimit.Rule{
			{Key: httplimit.ByHeader("X-User"), Limits: []weir.Limit{weir.PerMinute(1).Named("user")}},
			{Key: httplimit.ByIP(), Limits: []weir.Limit{weir.PerMinute(3).Named("address")}},
		},
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Headers: headers.Options{Random: func(int64) int64 { return 0 }}, // no jitter, so that the output is known
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := wrap(http.HandlerFunc(hello))
	ask(h, "192.0.2.1:4711", "X-User", "ann")
	ask(h, "192.0.2.1:4711", "X-User", "ann")
	ask(h, "192.0.2.1:4711", "X-User", "bob")
	// Output:
	// 200 "user";r=0;t=60, "address";r=2;t=20
	// 429 "user";r=0;t=60, "address";r=2;t=20
	// 200 "user";r=0;t=60, "address";r=1;t=40
}

// A client that is never refused: it sends no faster than it may.
func ExampleTransport() {
	l, err := weir.New(weir.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	api := httptest.NewServer(http.HandlerFunc(hello))
	defer api.Close()

	quota := weir.PerSecond(50).Burst(1)
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{
		Limiter: l,
		Charges: func(r *http.Request) []weir.Charge { return []weir.Charge{quota.Charge("api " + r.URL.Host)} },
		Retries: 2, // of what the API refuses all the same
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 3 {
		res, err := client.Get(api.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(res.Status)
		if err := res.Body.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
}
