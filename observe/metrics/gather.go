package metrics

import dto "github.com/prometheus/client_model/go"

// Gather implements prometheus.Gatherer: what Handler would serve, for those who
// read it in this process.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }
