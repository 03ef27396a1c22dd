package rls

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The counters go by the names that envoyproxy/ratelimit has for Prometheus, so
// that its dashboards and alerts go on. key2 is empty for rules of one level, and
// holds all levels after the first, joined by dots, of those with more than two.
var (
	keyed = []string{"domain", "key1", "key2"}

	totalHits   = desc("rate_limit_total_hits", "Hits that fell under a rule.", keyed...)
	overLimit   = desc("rate_limit_over_limit", "Hits beyond the limit of their rule.", keyed...)
	nearLimit   = desc("rate_limit_near_limit", "Hits near the limit of their rule.", keyed...)
	withinLimit = desc("rate_limit_within_limit", "Hits within the limit of their rule.", keyed...)
	shadowMode  = desc("rate_limit_shadow_mode", "Hits beyond the limit of a rule in shadow mode.", keyed...)
	notFound    = desc("rate_limit_domain_not_found", "Requests for a domain that no file has.", "domain")

	totalRequests = desc("total_requests", "Requests.", "grpc_method")
	failures      = desc("should_rate_limit_error", "Requests that could not be answered, and answers without the store.", "err_type")
	loadSuccess   = desc("config_load_success", "Times the configuration was loaded.")
	loadError     = desc("config_load_error", "Times it was wrong, and the one before stayed in force.")
	globalShadow  = desc("global_shadow_mode", "Requests that --rls-shadow has let pass.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (s *Service) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		totalHits, overLimit, nearLimit, withinLimit, shadowMode, notFound, totalRequests, failures, loadSuccess, loadError, globalShadow,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Service) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	stats := s.Stats()
	for _, c := range stats.Rules {
		first, rest := "", ""
		if len(c.Path) > 0 {
			first, rest = strings.ToValidUTF8(c.Path[0], "?"), strings.ToValidUTF8(strings.Join(c.Path[1:], "."), "?")
		}
		domain := strings.ToValidUTF8(c.Domain, "?")
		send(totalHits, c.Total.Load(), domain, first, rest)
		send(overLimit, c.Over.Load(), domain, first, rest)
		send(nearLimit, c.Near.Load(), domain, first, rest)
		send(withinLimit, c.Within.Load(), domain, first, rest)
		send(shadowMode, c.Shadow.Load(), domain, first, rest)
	}
	for domain, n := range stats.UnknownDomains {
		send(notFound, n, strings.ToValidUTF8(domain, "?"))
	}
	send(totalRequests, stats.Requests, "ShouldRateLimit")
	send(failures, stats.StoreErrors, "redis_error")
	send(failures, stats.ServiceErrors, "service_error")
	send(loadSuccess, stats.Loads)
	send(loadError, stats.LoadErrors)
	send(globalShadow, stats.Shadowed)
}
