package httplimit_test

import (
	"net/http/httptest"
	"net/url"
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

// TestTargetWithoutPath: no rule on a path looks at what such a request asks for.
func TestTargetWithoutPath(t *testing.T) {
	l := limiter(t, weir.Options{})
	wrap, err := httplimit.Policy(l, gate.New(l, nil, nil), httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var handler served
	r := httptest.NewRequest("GET", "/", nil)
	if r.URL, err = url.ParseRequestURI("x:http://h/login"); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	wrap(&handler).ServeHTTP(w, r)
	if w.Code != 400 || handler != 0 {
		t.Errorf("status %d; the handler ran %d times", w.Code, handler)
	}
}
