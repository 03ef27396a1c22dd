package rls

import (
	"context"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// TestTogetherWithWhatDoesNotDecide: a rule that is over its limit and refuses nobody
// must not keep the rules beside it from counting, or nobody is ever refused.
func TestTogetherWithWhatDoesNotDecide(t *testing.T) {
	for name, file := range map[string]string{
		"shadow first": "domain: d\nweir: {all_or_nothing: true}\ndescriptors:\n" +
			"- {key: a, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: b, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
		"shadow last": "domain: d\nweir: {all_or_nothing: true}\ndescriptors:\n" +
			"- {key: a, rate_limit: {unit: hour, requests_per_unit: 3}}\n" +
			"- {key: b, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n",
		"quota": "domain: d\nweir: {all_or_nothing: true}\ndescriptors:\n" +
			"- {key: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
		"quota beside a limit": "domain: d\nweir: {all_or_nothing: true}\ndescriptors:\n" +
			"- {key: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n" +
			"- {key: c, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}\n" +
			"- {key: b, rate_limit: {unit: hour, requests_per_unit: 3}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, Options{}, "f.yaml", file)
			admitted := 0
			for range 10 {
				if h.decide(request(1, described([]string{"a=x", "c=x", "b=x"})...)).GetOverallCode() == ok {
					admitted++
				}
			}
			if admitted != 3 {
				t.Errorf("%d of 10 were admitted, not 3", admitted)
			}
		})
	}
}

// TestTogetherOnOneBalance: two limits on one balance cannot stand in one bill, and a
// gateway takes the error that this would be for a pass.
func TestTogetherOnOneBalance(t *testing.T) {
	h := newHarness(t, Options{Load: rlsconfig.Options{AllOrNothing: true}}, "f.yaml",
		"domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: hour, requests_per_unit: 2}}\n")
	own := descriptor("a", "x")
	own.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_HOUR}
	answer, err := h.Decide(context.Background(), request(1, descriptor("a", "x"), own))
	if err != nil || answer.GetOverallCode() != ok {
		t.Errorf("%v, %v", answer, err)
	}
}
