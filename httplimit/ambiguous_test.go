package httplimit_test

import (
	"net/http/httptest"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

// TestAmbiguousPath: a path that the policy refuses is its client's fault, and neither
// the server's nor a mistake in the configuration.
func TestAmbiguousPath(t *testing.T) {
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Compile(policy.Options{
		Rules:           []policy.Rule{{Name: "all", Key: []identity.Part{ip}, Limit: limit(t, "9/h")}},
		RejectAmbiguous: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := limiter(t, weir.Options{})
	wrap, err := httplimit.Policy(l, gate.New(l, nil, p), httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var handler served
	w := httptest.NewRecorder()
	wrap(&handler).ServeHTTP(w, httptest.NewRequest("GET", "/a%2Fb", nil))
	if w.Code != 400 || handler != 0 || w.Header().Get("Content-Type") != headers.ProblemType {
		t.Errorf("status %d, %v; the handler ran %d times", w.Code, w.Header(), handler)
	}
}
