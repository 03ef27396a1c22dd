package rls

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPrometheus reads the counters as they are scraped.
func TestPrometheus(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n"+
		"- {key: a, descriptors: [{key: b, descriptors: [{key: c, rate_limit: {unit: hour, requests_per_unit: 5}}]}]}")
	h.hit(1, "k", "v")
	h.hit(1, "k", "v")
	h.hit(2, "a", "1", "b", "2", "c", "3")
	h.decide(requestTo("nobody"))
	registry := prometheus.NewRegistry()
	must(t, registry.Register(h.Service))
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"ratelimit_service_rate_limit_total_hits d k ":          2,
		"ratelimit_service_rate_limit_over_limit d k ":          1,
		"ratelimit_service_rate_limit_within_limit d a b.c":     2,
		"ratelimit_service_rate_limit_domain_not_found nobody":  1,
		"ratelimit_service_total_requests ShouldRateLimit":      4,
		"ratelimit_service_should_rate_limit_error redis_error": 0,
		"ratelimit_service_config_load_success":                 1,
	} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
}

// Levels are joined by dots, and a value may hold one: two names that come out the
// same are one series, or nothing of the daemon could be scraped any more.
func TestPrometheusJoinsWhatReadsTheSame(t *testing.T) {
	h := newHarness(t, Options{}, "f.yaml", "domain: d\ndescriptors:\n"+
		"- {key: a, descriptors: [{key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}, descriptors: ["+
		"{key: path, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 5}}]}]}")
	h.hit(1, "a", "1", "user", "bob", "path", "x")
	h.hit(2, "a", "1", "user", "bob.path_x")
	registry := prometheus.NewRegistry()
	must(t, registry.Register(h.Service))
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if labels := m.GetLabel(); f.GetName() == "ratelimit_service_rate_limit_total_hits" && labels[2].GetValue() == "user_bob.path_x" && m.GetCounter().GetValue() != 3 {
				t.Errorf("%v hits, want 3", m.GetCounter().GetValue())
			}
		}
	}
}
