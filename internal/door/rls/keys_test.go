package rls

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/layer/denycache"
	"github.com/weirhq/weir/observe"
)

// keyCases show for every key of the configuration that without it an answer or
// a counter would be another.
var keyCases = []struct {
	key  string
	with string
	cut  string // what is cut out of with
	ask  func(h *harness) string
}{
	{"key", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]", "key: k", nil}, // is required
	{"domain", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]", "domain: d\n", nil},
	{"unit", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 5}}]", "unit: hour, ", nil},
	{"descriptors", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0}}]",
		"descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0}}]", verdicts("k=v")},
	{"descriptors (nested)", "domain: d\ndescriptors: [{key: k, descriptors: [{key: l, rate_limit: {unit: hour, requests_per_unit: 0}}]}]",
		", descriptors: [{key: l, rate_limit: {unit: hour, requests_per_unit: 0}}]", verdicts("k=v l=w")},
	{"value", "domain: d\ndescriptors: [{key: k, value: v, rate_limit: {unit: hour, requests_per_unit: 0}}]", "value: v, ", verdicts("k=w")},
	{"rate_limit", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0}}]",
		", rate_limit: {unit: hour, requests_per_unit: 0}", verdicts("k=v")},
	{"requests_per_unit", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]",
		", requests_per_unit: 1", verdicts("k=v")},
	{"unlimited", "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, unit: \"\"}}]", "unlimited: true, ", nil},
	{"name", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1, name: n}}]", ", name: n", answer("k=v")},
	{"replaces", "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 0, name: n}}\n" +
		"- {key: l, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: n}]}}", ", replaces: [{name: n}]", verdicts("k=v", "l=w")},
	{"shadow_mode", "domain: d\ndescriptors: [{key: k, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}]",
		"shadow_mode: true, ", verdicts("k=v")},
	{"quota_mode", "domain: d\ndescriptors:\n- {key: k, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}\n" +
		"- {key: l, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 5}}", "quota_mode: true, ", verdicts("k=v", "l=w")},
	{"share_threshold", "domain: d\ndescriptors: [{key: k, value: a*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}]",
		"share_threshold: true, ", verdicts("k=a1", "k=a2")},
	{"detailed_metric", "domain: d\ndescriptors: [{key: k, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}]",
		"detailed_metric: true, ", series("k=v")},
	{"value_to_metric", "domain: d\ndescriptors: [{key: k, value_to_metric: true, descriptors: [{key: l, rate_limit: {unit: hour, requests_per_unit: 1}}]}]",
		"value_to_metric: true, ", series("k=v l=w")},
	{"metadata", "domain: d\ndescriptors: [{key: k, metadata: {team: {a: [1, true, x]}}, rate_limit: {unit: hour, requests_per_unit: 1}}]",
		"metadata: {team: {a: [1, true, x]}}, ", answer("k=v")},
	{"weir.limit", "domain: d\ndescriptors: [{key: k, weir: {limit: 1/90s algorithm=sliding_log}}]", ", weir: {limit: 1/90s algorithm=sliding_log}", answer("k=v")},
	{"weir.all_or_nothing", "domain: d\ndescriptors:\n- {key: k, weir: {all_or_nothing: true}, rate_limit: {unit: hour, requests_per_unit: 5}}\n" +
		"- {key: l, weir: {all_or_nothing: true}, rate_limit: {unit: hour, requests_per_unit: 0}}", "weir: {all_or_nothing: true}, ", answer("k=v", "l=w")},
	{"weir.all_or_nothing (of the file)", "domain: d\nweir: {all_or_nothing: true}\ndescriptors:\n" +
		"- {key: k, rate_limit: {unit: hour, requests_per_unit: 5}}\n- {key: l, rate_limit: {unit: hour, requests_per_unit: 0}}",
		"weir: {all_or_nothing: true}\n", answer("k=v", "l=w")},
	// weir.on_store_failure: TestClosed
}

func TestKeys(t *testing.T) {
	for _, c := range keyCases {
		t.Run(c.key, func(t *testing.T) {
			without := strings.ReplaceAll(c.with, c.cut, "")
			if without == c.with {
				t.Fatal("nothing was cut")
			}
			if c.ask == nil { // without it the file is refused
				if problem := refused(without); problem == "" {
					t.Errorf("without it the file is taken:\n%s", without)
				}
				newHarness(t, Options{}, "with.yaml", c.with)
				return
			}
			got := c.ask(newHarness(t, Options{Metadata: true}, "with.yaml", c.with))
			if other := c.ask(newHarness(t, Options{Metadata: true}, "without.yaml", without)); got == other {
				t.Errorf("with and without it the same comes out:\n%s", got)
			}
		})
	}
}

// verdicts asks twice for the descriptors, each "key=value key=value", and returns
// the codes.
func verdicts(descriptors ...string) func(*harness) string {
	return func(h *harness) string {
		var out strings.Builder
		for range 2 {
			a := h.decide(request(1, described(descriptors)...))
			fmt.Fprint(&out, a.GetOverallCode())
			for _, st := range a.GetStatuses() {
				fmt.Fprint(&out, " ", st.GetCode())
			}
			out.WriteString("\n")
		}
		return out.String()
	}
}

// answer asks once and returns all of the answer.
func answer(descriptors ...string) func(*harness) string {
	return func(h *harness) string {
		text, err := protojson.Marshal(h.decide(request(1, described(descriptors)...)))
		if err != nil {
			h.t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), " ", "")
	}
}

// series asks once and returns the names of the counters that moved.
func series(descriptors ...string) func(*harness) string {
	return func(h *harness) string {
		h.decide(request(1, described(descriptors)...))
		return counted(h)
	}
}

// counted is what was counted, a series a line.
func counted(h *harness) string {
	var out strings.Builder
	for _, c := range h.Stats().Rules {
		if c.Total.Load() > 0 {
			fmt.Fprintf(&out, "%s.%s total=%d over=%d near=%d within=%d shadow=%d\n", c.Domain, strings.Join(c.Path, "."),
				c.Total.Load(), c.Over.Load(), c.Near.Load(), c.Within.Load(), c.Shadow.Load())
		}
	}
	return out.String()
}

// TestUnlimited shows what the table cannot: without the key the file is refused.
func TestUnlimited(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]")
	if st := h.hit(1000, "k", "v"); st.GetCode() != ok || st.GetLimitRemaining() != 4294967295 || st.GetCurrentLimit() != nil {
		t.Errorf("got %v", st)
	}
}

func TestCounters(t *testing.T) {
	file := "domain: d\ndescriptors:\n" +
		"- {key: k, rate_limit: {unit: hour, requests_per_unit: 10}}\n" +
		"- {key: s, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
		"- {key: w, value: a*, share_threshold: true, value_to_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}\n" +
		"- {key: p, value_to_metric: true, descriptors: [{key: q, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 9}}]}\n"
	for _, c := range []struct {
		name string
		hits []uint32
		at   string
		want string
	}{
		{"within", []uint32{3, 3}, "k=v", "d.k total=6 over=0 near=0 within=6 shadow=0\n"},
		{"near is divided", []uint32{6, 3}, "k=v", "d.k total=9 over=0 near=1 within=9 shadow=0\n"},
		{"near in whole", []uint32{8, 2}, "k=v", "d.k total=10 over=0 near=2 within=10 shadow=0\n"},
		{"over is divided", []uint32{8, 5}, "k=v", "d.k total=13 over=3 near=2 within=8 shadow=0\n"},
		{"over by one", []uint32{10, 1, 1}, "k=v", "d.k total=12 over=2 near=2 within=10 shadow=0\n"},
		{"what was refused counts", []uint32{8, 5, 1}, "k=v", "d.k total=14 over=4 near=2 within=8 shadow=0\n"},
		{"shadow", []uint32{1, 1}, "s=v", "d.s total=2 over=1 near=1 within=1 shadow=1\n"},
		{"shared", []uint32{1}, "w=abc", "d.w_a* total=1 over=0 near=0 within=1 shadow=0\n"},
		{"detailed", []uint32{1}, "p=x q=y", "d.p_x.q_y total=1 over=0 near=0 within=1 shadow=0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, Options{}, "f.yaml", file)
			for _, n := range c.hits {
				h.decide(request(n, described([]string{c.at})...))
			}
			if got := counted(h); got != c.want {
				t.Errorf("got %swant %s", got, c.want)
			}
		})
	}
}

// A refusal that is answered again without the store tells what was left when it was
// made; the hits that took the rest since are not to be counted as near twice.
func TestCountersBehindTheDenyCache(t *testing.T) {
	memory := weir.NewMemory(weir.MemoryOptions{Now: func() int64 { return began.UnixMicro() }})
	l, err := weir.New(weir.Options{Store: denycache.New(memory, denycache.Options{Now: func() time.Duration { return 0 }})})
	must(t, err)
	defer l.Close()
	h := newHarness(t, Options{Limiter: l}, "f.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 10}}]")
	for _, n := range []uint32{8, 5, 5, 5} {
		h.hit(n, "k", "v")
	}
	if got, want := counted(h), "d.k total=23 over=13 near=2 within=8 shadow=0\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

// heard is an observer that writes down of which door and rule it hears.
type heard []string

func (h *heard) Observe(_ context.Context, e weir.Event) {
	note := observe.NoteOf(&e)
	*h = append(*h, note.DoorName()+" "+note.RuleName(0))
}

// What a refusal leaves is taken under the name of its rule and of this door.
func TestRestIsTakenUnderItsRule(t *testing.T) {
	var told heard
	l, err := weir.New(weir.Options{Observer: &told})
	must(t, err)
	defer l.Close()
	h := newHarness(t, Options{Limiter: l}, "f.yaml", "domain: d\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 10}}]")
	h.hit(8, "k", "v")
	h.hit(5, "k", "v")
	if got := strings.Join(told, ", "); got != "grpc d.k, grpc d.k, grpc d.k" {
		t.Error(got)
	}
}

// TestSeriesAreBounded has callers choose the names of metrics.
func TestSeriesAreBounded(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors: [{key: k, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}]")
	for i := range maxSeries + 50 {
		h.hit(1, "k", fmt.Sprint(i))
		h.decide(&rlsv3.RateLimitRequest{Domain: fmt.Sprint("nobody", i), Descriptors: described([]string{"k=v"})})
	}
	stats := h.Stats()
	if len(stats.Rules) > maxSeries+1 || len(stats.UnknownDomains) > maxUnknown+1 || stats.UnknownDomains["other"] == 0 {
		t.Errorf("%d series, %d domains", len(stats.Rules), len(stats.UnknownDomains))
	}
}

func TestHits(t *testing.T) {
	file := "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 10}}\n" +
		"- {key: b, weir: {limit: 10/min}}\n- {key: l, weir: {limit: 10/min algorithm=sliding_log}}\n"
	type step struct {
		hits      int64 // negative takes back
		code      rlsv3.RateLimitResponse_Code
		remaining uint32
	}
	for _, c := range []struct {
		name, at string
		steps    []step
	}{
		{"a check of none", "k=v", []step{{0, ok, 10}, {10, ok, 0}, {0, ok, 0}, {1, over, 0}, {0, over, 0}}},
		{"what is refused is counted", "k=v", []step{{8, ok, 2}, {5, over, 0}, {1, over, 0}}},
		{"taken back", "k=v", []step{{8, ok, 2}, {-3, ok, 5}, {5, ok, 0}, {1, over, 0}}},
		{"no more than was used", "k=v", []step{{2, ok, 8}, {-9, ok, 10}, {10, ok, 0}}},
		{"taken back from a bucket", "b=v", []step{{8, ok, 2}, {-3, ok, 5}, {5, ok, 0}, {1, over, 0}}},
		{"more than there can be", "k=v", []step{{1 << 60, over, 0}, {1, over, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, Options{}, "f.yaml", file)
			for i, s := range c.steps {
				d := described([]string{c.at})[0]
				d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(uint64(max(s.hits, -s.hits))), s.hits < 0
				st := h.decide(request(99, d)).GetStatuses()[0]
				if st.GetCode() != s.code || st.GetLimitRemaining() != s.remaining {
					t.Fatalf("step %d: got %v, want %v with %d left", i, st, s.code, s.remaining)
				}
			}
		})
	}
}
