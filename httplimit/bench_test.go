package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
)

// discard is a ResponseWriter that costs nothing.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

var roomy = weir.Per(1e9, 1e9)

var benchmarks = []struct {
	name    string
	options httplimit.Options
}{
	{"by_ip", httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{roomy}}}}},
	{"by_header", httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByHeader("X-Api-Key"), Limits: []weir.Limit{roomy}}}}},
	{"by_ip_without_fields", httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{roomy}}}, Headers: headers.Options{Families: headers.None}}},
	{"two_rules", httplimit.Options{Rules: []httplimit.Rule{
		{Key: httplimit.ByIP(), Limits: []weir.Limit{roomy.Named("ip")}},
		{Key: httplimit.ByHeader("X-Api-Key"), Limits: []weir.Limit{roomy.Named("key")}},
	}}},
}

func request() *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Api-Key", "k-acme-1")
	return r
}

var nothing = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

func BenchmarkAdmitted(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			h := build(b, limiter(b, weir.Options{}), c.options)(nothing)
			w, r := discard{}, request()
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

func BenchmarkDenied(b *testing.B) {
	h := httplimit.Middleware(limiter(b, weir.Options{}), httplimit.ByIP(), weir.Per(0, 1e9))(nothing)
	w, r := discard{}, request()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
