package rls

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// lost is a store that nothing reaches.
type lost struct{ weir.Store }

func (lost) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Unreachable: true, Err: errors.New("no route")}
	}
}
func (lost) Caps() weir.Caps {
	return weir.Caps{Source: "redis", Verbs: []algo.Verb{algo.Take, algo.Peek}}
}
func (lost) Close() error { return nil }

// TestClosed has rules without their store. A closed one is never a pass.
func TestClosed(t *testing.T) {
	file := func(failure string) string {
		return "domain: d\ndescriptors:\n- {key: k" + failure + ", rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: q, quota_mode: true" + failure + ", rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: l, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: a, weir: {all_or_nothing: true" + strings.Replace(failure, ", weir: {", ", ", 1) + ", rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	}
	for _, c := range []struct {
		failure string
		asks    []string
		first   rlsv3.RateLimitResponse_Code
		second  rlsv3.RateLimitResponse_Code
	}{
		{"closed", []string{"k=v"}, over, over},
		{"closed", []string{"q=v", "l=v"}, over, over}, // though one quota is left
		{"closed", []string{"a=v"}, over, over},
		{"open", []string{"k=v"}, ok, ok},
		{"local", []string{"k=v"}, ok, over},
		{"share", []string{"k=v"}, ok, over},
	} {
		t.Run(c.failure+" "+strings.Join(c.asks, " "), func(t *testing.T) {
			l, err := weir.New(weir.Options{Store: lost{}})
			if err != nil {
				t.Fatal(err)
			}
			h := newHarness(t, Options{Limiter: l}, "f.yaml", file(", weir: {on_store_failure: "+c.failure+"}"))
			for i, want := range []rlsv3.RateLimitResponse_Code{c.first, c.second} {
				if got := h.decide(request(1, described(c.asks)...)).GetOverallCode(); got != want {
					t.Errorf("request %d: %v, want %v", i, got, want)
				}
			}
			if h.Stats().StoreErrors == 0 {
				t.Error("the failures of the store are not counted")
			}
			// Nor when nothing can be decided at all.
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			answer, err := h.Decide(ctx, request(1, described(c.asks)...))
			if closed := c.failure == "closed"; closed != (answer.GetOverallCode() == over) || closed != (err == nil) {
				t.Errorf("with a caller that has gone: %v, %v", answer, err)
			}
		})
	}
	h := newHarness(t, Options{Shadow: true}, "f.yaml", file(", weir: {on_store_failure: closed}"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if answer, err := h.Decide(ctx, request(1, described([]string{"k=v"})...)); err != nil || answer.GetOverallCode() != ok || h.Stats().Shadowed != 1 {
		t.Errorf("in shadow, with a caller that has gone: %v, %v", answer, err)
	}
	if problem := refused("domain: d\ndescriptors: [{key: k, shadow_mode: true, weir: {on_store_failure: closed}, rate_limit: {unit: hour, requests_per_unit: 1}}]"); !strings.Contains(problem, "choose one") {
		t.Errorf("shadow and closed: %q", problem)
	}
}

func TestOverride(t *testing.T) {
	const file = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]"
	override := func(unit typev3.RateLimitUnit, times uint32) *rlsv3.RateLimitRequest {
		d := descriptor("k", "v")
		d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: unit}
		if times > 0 {
			d.Limit.UnitMultiplier = wrapperspb.UInt32(times)
		}
		return request(1, d)
	}
	h := newHarness(t, Options{}, "f.yaml", file)
	h.hit(1, "k", "v")
	st := h.decide(override(typev3.RateLimitUnit_MINUTE, 7)).GetStatuses()[0]
	// 1700000040 is 4 minutes into a period of seven.
	if st.GetLimitRemaining() != 1 || st.GetCurrentLimit().GetUnitMultiplier().GetValue() != 7 || st.GetDurationUntilReset().GetSeconds() != 420-1700000040%420 {
		t.Errorf("7 minutes: %v", st)
	}
	if st := h.hit(1, "k", "v"); st.GetLimitRemaining() != 3 {
		t.Errorf("the rule of the file has %d left, its own balance 3", st.GetLimitRemaining())
	}
	for _, bad := range []*rlsv3.RateLimitRequest{override(typev3.RateLimitUnit_UNKNOWN, 0), override(typev3.RateLimitUnit_YEAR, 2), override(42, 1)} {
		if _, err := h.Decide(context.Background(), bad); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "limit.unit") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestShadowAndQuota are the switches for all rules at once.
func TestShadowAndQuota(t *testing.T) {
	const file = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 0}}\n- {key: l, rate_limit: {unit: hour, requests_per_unit: 5}}"
	for _, c := range []struct {
		name string
		o    Options
		asks []string
		want rlsv3.RateLimitResponse_Code
	}{
		{"none", Options{}, []string{"k=v"}, over},
		{"shadow", Options{Shadow: true}, []string{"k=v"}, ok},
		{"quota, one is left", Options{Quota: true}, []string{"k=v", "l=v"}, ok},
		{"quota, none is left", Options{Quota: true}, []string{"k=v"}, over},
	} {
		h := newHarness(t, c.o, "f.yaml", file)
		a := h.decide(request(1, described(c.asks)...))
		if a.GetOverallCode() != c.want || a.GetStatuses()[0].GetCode() != over {
			t.Errorf("%s: %v", c.name, a)
		}
		if shadowed := h.Stats().Shadowed; shadowed > 0 != c.o.Shadow {
			t.Errorf("%s: %d counted as shadowed", c.name, shadowed)
		}
	}
}

func TestHeaders(t *testing.T) {
	const file = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 3}}\n- {key: l, rate_limit: {unit: minute, requests_per_unit: 9}}"
	h := newHarness(t, Options{Headers: [3]string{"L", "R", "T"}}, "f.yaml", file)
	for i, want := range []string{"L=3 R=2 T=2760", "L=3 R=1 T=2760", "L=3 R=0 T=2760", "L=3 R=0 T=2760"} {
		var got []string
		for _, f := range h.decide(request(1, described([]string{"l=v", "k=v"})...)).GetResponseHeadersToAdd() {
			got = append(got, f.GetKey()+"="+f.GetValue())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 3}}]")
	for _, c := range []struct {
		q    *rlsv3.RateLimitRequest
		want string
	}{
		{&rlsv3.RateLimitRequest{Descriptors: described([]string{"k=v"})}, "rate limit domain must not be empty"},
		{&rlsv3.RateLimitRequest{Domain: "d"}, "rate limit descriptor list must not be empty"},
		{&rlsv3.RateLimitRequest{Domain: "d", Descriptors: make([]*ratelimitv3.RateLimitDescriptor, 200)}, "at most 128"},
	} {
		if _, err := h.Decide(context.Background(), c.q); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if n := h.Stats().ServiceErrors; n != 3 {
		t.Errorf("%d counted", n)
	}
}

func TestJSON(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]")
	for _, c := range []struct {
		method, body string
		code         int
		want         string
	}{
		{"POST", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 200, `"overallCode":"OK"`},
		{"PUT", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`, 429, `"overallCode":"OVER_LIMIT"`},
		{"POST", `{"domain":"d","new":1,"descriptors":[{"entries":[{"key":"k","value":"w"}]}]}`, 200, `"limitRemaining"`[:0]},
		{"POST", `{"domain":`, 400, "no RateLimitRequest"},
		{"POST", `{"domain":"d"}`, 400, "descriptor list must not be empty"},
		{"POST", `{"domain":"` + strings.Repeat("d", maxMessage) + `"}`, 413, "1 MiB"},
	} {
		w := httptest.NewRecorder()
		h.JSON().ServeHTTP(w, httptest.NewRequest(c.method, JSONPath, strings.NewReader(c.body)))
		if w.Code != c.code || !strings.Contains(strings.ReplaceAll(w.Body.String(), `": "`, `":"`), c.want) {
			t.Errorf("%.60s: %d %s", c.body, w.Code, w.Body)
		}
	}
	for well, code := range map[bool]int{true: 200, false: http.StatusInternalServerError} {
		w := httptest.NewRecorder()
		if Health(w, well); w.Code != code {
			t.Errorf("health %v: %d", well, w.Code)
		}
	}
}

// TestReload changes the files under a Service, by a symlink that is swapped as
// Kubernetes does it. Balances stay.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		put := func(version, text string) {
			t.Helper()
			must(t, os.MkdirAll(filepath.Join(dir, version), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, version, "a.yaml"), []byte(text), 0o644))
			must(t, os.Symlink(version, filepath.Join(dir, "..next")))
			must(t, os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
		}
		put("..1", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 3}}]")
		must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
		l, err := weir.New(weir.Options{})
		must(t, err)
		var loaded []error
		s, err := New(Options{Limiter: l, Dir: dir, Loaded: func(err error) { loaded = append(loaded, err) }})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		go s.Watch(ctx)
		h := &harness{Service: s, t: t}
		expect := func(remaining uint32, loads int) {
			t.Helper()
			<-time.After(5 * lookEvery)
			synctest.Wait()
			if st := h.hit(1, "k", "v"); st.GetLimitRemaining() != remaining || len(loaded) != loads {
				t.Fatalf("%d left after %d loads, want %d after %d", st.GetLimitRemaining(), len(loaded), remaining, loads)
			}
		}
		expect(2, 0)
		put("..2", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 9}}]")
		expect(7, 1)
		put("..3", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 9}}]")
		expect(6, 2)
		if loaded[1] == nil || !strings.Contains(loaded[1].Error(), "a.yaml:2:") {
			t.Errorf("the fault is told as %v", loaded[1])
		}
		put("..4", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 10}}]")
		expect(6, 3)
		if stats := s.Stats(); stats.Loads != 3 || stats.LoadErrors != 1 {
			t.Errorf("%d loads and %d errors are counted", stats.Loads, stats.LoadErrors)
		}
		stop()
		synctest.Wait()
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
