package rls

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// harness is a Service over a memory store on a clock that tests set.
type harness struct {
	*Service
	t   testing.TB
	now atomic.Int64 // microseconds
}

// began is an instant 40 s into an hour, a minute and a day that are all under way.
var began = time.Unix(1700000040, 0)

// newHarness takes files as name and text in turn.
func newHarness(t testing.TB, o Options, files ...string) *harness {
	t.Helper()
	h := &harness{t: t}
	h.set(began)
	if o.Limiter == nil {
		l, err := weir.New(weir.Options{Store: weir.NewMemory(weir.MemoryOptions{Now: h.now.Load})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		o.Limiter = l
	}
	o.Now = func() time.Time { return time.UnixMicro(h.now.Load()) }
	c, err := rlsconfig.Parse(o.Load, files...)
	if err != nil {
		t.Fatal(err)
	}
	h.Service = newService(o)
	h.use(c, [32]byte{})
	return h
}

func (h *harness) set(at time.Time) { h.now.Store(at.UnixMicro()) }

func (h *harness) decide(q *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	h.t.Helper()
	answer, err := h.Decide(context.Background(), q)
	if err != nil {
		h.t.Fatal(err)
	}
	return answer
}

// hit asks for one descriptor of domain d: keys and values in turn.
func (h *harness) hit(hits uint32, entries ...string) *rlsv3.RateLimitResponse_DescriptorStatus {
	h.t.Helper()
	return h.decide(request(hits, descriptor(entries...))).GetStatuses()[0]
}

func request(hits uint32, descriptors ...*ratelimitv3.RateLimitDescriptor) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: "d", HitsAddend: hits, Descriptors: descriptors}
}

func descriptor(entries ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

// described makes descriptors of texts such as "key=value key=value".
func described(texts []string) (out []*ratelimitv3.RateLimitDescriptor) {
	for _, text := range texts {
		var entries []string
		for _, e := range strings.Fields(text) {
			key, value, _ := strings.Cut(e, "=")
			entries = append(entries, key, value)
		}
		out = append(out, descriptor(entries...))
	}
	return out
}

// refused returns why a file is refused, or nothing.
func refused(file string) string {
	_, err := rlsconfig.Parse(rlsconfig.Options{}, "f.yaml", file)
	if err == nil {
		return ""
	}
	return err.Error()
}

func requestTo(domain string) *rlsv3.RateLimitRequest {
	return &rlsv3.RateLimitRequest{Domain: domain, Descriptors: described([]string{"k=v"})}
}
