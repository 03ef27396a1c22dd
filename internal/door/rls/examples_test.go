package rls

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// TestExample loads the directory of the documents and asks as Envoy would.
func TestExample(t *testing.T) {
	c, err := rlsconfig.Load("../../../examples/rls/config", rlsconfig.Options{})
	must(t, err)
	l, err := weir.New(weir.Options{})
	must(t, err)
	h := &harness{Service: newService(Options{Limiter: l}), t: t}
	h.use(c, [32]byte{})
	for _, c := range []struct {
		asks  []string
		hits  uint32
		want  rlsv3.RateLimitResponse_Code
		limit uint32
	}{
		{[]string{"remote_address=198.51.100.7"}, 100, ok, 100},
		{[]string{"remote_address=198.51.100.7"}, 1, over, 100},
		{[]string{"remote_address=192.0.2.1"}, 4000, ok, 5000},
		{[]string{"remote_address=192.0.2.2"}, 4000, over, 5000}, // one office
		{[]string{"path=/login account=a"}, 5, ok, 5},
		{[]string{"path=/login account=a"}, 1, over, 5},
		{[]string{"tenant=t", "user=u"}, 20, ok, 50},
		{[]string{"tenant=t", "user=u"}, 20, over, 50},
	} {
		q := request(c.hits, described(c.asks)...)
		q.Domain = "edge"
		a := h.decide(q)
		if a.GetOverallCode() != c.want || a.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit() != c.limit {
			t.Errorf("%v: %v", c.asks, a)
		}
	}
	q := request(1, described([]string{"tenant=t"})...)
	q.Domain = "edge"
	if left := h.decide(q).GetStatuses()[0].GetLimitRemaining(); left < 170 {
		t.Errorf("the tenant has %d left: it was charged for what its user was refused", left)
	}
}
