package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/httplimit"
)

// Whatever is wrong, no request gets through unlimited.
func TestMistakesRefuse(t *testing.T) {
	l, closed := limiter(t, weir.Options{}), limiter(t, weir.Options{})
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	sound := limit(t, "1/366d")
	two := []weir.Limit{sound, limit(t, "2/366d")} // two limits on one balance
	for name, c := range map[string]struct {
		wrap   func(http.Handler) http.Handler
		status int
	}{
		"nil limiter":     {httplimit.Middleware(nil, httplimit.ByIP(), sound), 500},
		"nil key":         {httplimit.Middleware(l, nil, sound), 500},
		"no limits":       {httplimit.Middleware(l, httplimit.ByIP()), 500},
		"the zero limit":  {httplimit.Middleware(l, httplimit.ByIP(), weir.Limit{}), 500},
		"conflict":        {httplimit.Middleware(l, httplimit.ByIP(), two...), 500},
		"closed limiter":  {httplimit.Middleware(closed, httplimit.ByIP(), sound), 503},
		"a plan unsound":  {build(t, l, httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Plan: func(*http.Request) []weir.Limit { return []weir.Limit{{}} }}}}), 500},
		"a plan of none":  {build(t, l, httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Plan: func(*http.Request) []weir.Limit { return nil }}}}), 500},
		"a dead request":  {httplimit.Middleware(l, httplimit.ByIP(), sound), 503},
		"cost too large?": {build(t, l, httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{sound}}}, Cost: func(*http.Request) int64 { return 1<<63 - 1 }}), 500},
	} {
		var handler served
		r := httptest.NewRequest("GET", "/", nil)
		if name == "a dead request" {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			r = r.WithContext(ctx)
		}
		w := httptest.NewRecorder()
		c.wrap(&handler).ServeHTTP(w, r)
		if w.Code != c.status || handler != 0 || w.Header().Get("Content-Type") != headers.ProblemType {
			t.Errorf("%s: status %d, want %d; handler ran %d times", name, w.Code, c.status, handler)
		}
	}
	for name, c := range map[string]struct {
		options httplimit.Options
		want    string
	}{
		"no rules":       {httplimit.Options{}, "no rules"},
		"nil key":        {httplimit.Options{Rules: []httplimit.Rule{{Limits: two}}}, "Rules[0].Key"},
		"no limits":      {httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP()}}}, "Rules[0] has no limits"},
		"unsound":        {httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: []weir.Limit{sound, {}}}}}, "Rules[0].Limits[1]: limit: is empty"},
		"negative delay": {httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: two}}, MaxDelay: -1}, "MaxDelay"},
		"headers":        {httplimit.Options{Rules: []httplimit.Rule{{Key: httplimit.ByIP(), Limits: two}}, Headers: headers.Options{Jitter: 101}}, "jitter"},
	} {
		if _, err := httplimit.New(l, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// away is a store that cannot be reached.
type away struct{ slow bool }

func (a away) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: !a.slow}
	}
}
func (away) Close() error    { return nil }
func (away) Caps() weir.Caps { return weir.Caps{Source: "redis", Verbs: []algo.Verb{algo.Take}} }

func TestStoreFailure(t *testing.T) {
	for _, c := range []struct {
		limit string
		slow  bool
		codes []int
	}{
		{"1/366d on_store_failure=closed", false, []int{503, 503}},
		{"1/366d on_store_failure=open", false, []int{200, 200}},
		{"1/366d on_store_failure=open", true, []int{200, 429}}, // load switches no limit off
		{"1/366d on_store_failure=local", false, []int{200, 429}},
		{"1/366d", true, []int{200, 429}},
	} {
		var handler served
		h := httplimit.Middleware(limiter(t, weir.Options{Store: away{c.slow}}), httplimit.ByIP(), limit(t, c.limit))(&handler)
		check := codes(t, c.codes...)
		for range c.codes {
			w := get(h, peer)
			check(w)
			if w.Code == 503 && (!strings.Contains(w.Body.String(), headers.ReducedCapacity) || w.Header().Get("Retry-After") == "") {
				t.Errorf("%s: %v %s", c.limit, w.Header(), w.Body)
			}
		}
	}
}
