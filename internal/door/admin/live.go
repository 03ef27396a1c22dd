package admin

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/internal/door/api"
)

// What the page shows as it happens is the metrics, read once a second and sent
// as server-sent events: so its numbers are those of /metrics, and a thousand
// decisions a second are one line all the same.

// Live is one line of /v1/live. Counts are since the process began; latencies are
// of the time since the line before.
type Live struct {
	TMS     int64      `json:"t_ms"` // milliseconds since the Unix epoch
	Rules   []LiveRule `json:"rules"`
	Latency Latency    `json:"latency"`
	Store   LiveStore  `json:"store"`
	Leases  LiveLeases `json:"leases"`
	Memory  LiveMemory `json:"memory"`
	Config  LiveConfig `json:"config"`
}

// LiveRule is what came of one rule's decisions.
type LiveRule struct {
	Rule     string           `json:"rule"`
	Admitted int64            `json:"admitted"` // unchecked ones included
	Refused  int64            `json:"refused"`
	Outcomes map[string]int64 `json:"outcomes"`
	// Of a rule in shadow mode: what it would have answered.
	ShadowAdmitted int64 `json:"shadow_admitted"`
	ShadowRefused  int64 `json:"shadow_refused"`
}

// Latency is of what ended since the line before; 0 where nothing did.
type Latency struct {
	Count int64 `json:"count"` // since the process began
	P50US int64 `json:"p50_us"`
	P99US int64 `json:"p99_us"`
}

// LiveStore is how the store is.
type LiveStore struct {
	BreakerOpen   bool             `json:"breaker_open"`
	FailOpen      bool             `json:"fail_open"`
	Errors        map[string]int64 `json:"errors"`
	Unknown       int64            `json:"unknown"`
	ClockOffsetUS int64            `json:"clock_offset_us"`
	Instances     int64            `json:"instances"`
	Calls         Latency          `json:"calls"`
	DenyCacheHits int64            `json:"deny_cache_hits"`
}

// LiveLeases are units.
type LiveLeases struct {
	Borrowed int64 `json:"borrowed"`
	Spent    int64 `json:"spent"`
	Returned int64 `json:"returned"`
	Out      int64 `json:"out"`
	Peak     int64 `json:"peak"`
}

// LiveMemory is what this process keeps.
type LiveMemory struct {
	Keys    int64 `json:"keys"`
	Bytes   int64 `json:"bytes"`
	Dropped int64 `json:"events_dropped"`
}

// LiveConfig is the policy in force.
type LiveConfig struct {
	OK      bool   `json:"ok"` // the last reload put the file in force
	Version string `json:"version"`
	SinceMS int64  `json:"since_ms"`
}

// live sends the metrics once a second, until the client goes or the door closes.
type live struct {
	metrics prometheus.Gatherer
	closing <-chan struct{} // or nil
	every   time.Duration
	room    chan struct{} // one for each who looks on
}

const (
	liveEvery   = time.Second
	liveBehind  = 10 * time.Second
	liveWatches = 32
)

func newLive(metrics prometheus.Gatherer, closing <-chan struct{}) *live {
	return &live{metrics, closing, liveEvery, make(chan struct{}, liveWatches)}
}

// ServeHTTP implements http.Handler.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case l.room <- struct{}{}:
		defer func() { <-l.room }()
	default:
		api.Refuse(w, api.Problem{Status: http.StatusServiceUnavailable, Detail: "as many look on as there is room for"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies would hold it back
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // what cannot be set is not set
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	var before histograms
	for {
		line, now, err := read(l.metrics, before)
		if err != nil || l.send(out, w, line) != nil {
			return
		}
		before = now
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-l.closing:
			return
		}
	}
}

// send writes one line, for which the client has as long as it may fall behind.
func (l *live) send(out *http.ResponseController, w http.ResponseWriter, line *Live) error {
	body, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_ = out.SetWriteDeadline(time.Now().Add(liveBehind))
	if _, err := w.Write([]byte("data: " + string(body) + "\n\n")); err != nil {
		return err
	}
	return out.Flush()
}

// histograms are those read last, by name.
type histograms map[string]*dto.Histogram

// read makes a line of the metrics.
func read(metrics prometheus.Gatherer, before histograms) (*Live, histograms, error) {
	families, err := metrics.Gather()
	if err != nil {
		return nil, nil, err
	}
	line := &Live{TMS: time.Now().UnixMilli(), Rules: []LiveRule{}}
	line.Store.Errors = map[string]int64{}
	rules := map[string]*LiveRule{}
	now := histograms{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				now[family.GetName()] = h
			}
			line.take(family.GetName(), m, rules)
		}
	}
	for _, rule := range rules {
		line.Rules = append(line.Rules, *rule)
	}
	slices.SortFunc(line.Rules, func(a, b LiveRule) int { return strings.Compare(a.Rule, b.Rule) })
	line.Latency = latency(now["weir_decision_duration_seconds"], before["weir_decision_duration_seconds"])
	line.Store.Calls = latency(now["weir_store_duration_seconds"], before["weir_store_duration_seconds"])
	return line, now, nil
}

// take puts one metric where the line has it.
func (l *Live) take(name string, m *dto.Metric, rules map[string]*LiveRule) {
	label := func(name string) string {
		for _, pair := range m.GetLabel() {
			if pair.GetName() == name {
				return pair.GetValue()
			}
		}
		return ""
	}
	rule := func() *LiveRule {
		r := rules[label("rule")]
		if r == nil {
			r = &LiveRule{Rule: label("rule"), Outcomes: map[string]int64{}}
			rules[r.Rule] = r
		}
		return r
	}
	value := m.GetCounter().GetValue() + m.GetGauge().GetValue() // one of them is there
	n := int64(value)
	switch name {
	case "weir_decisions_total":
		r, outcome := rule(), label("outcome")
		r.Outcomes[outcome] += n
		if outcome == "admitted" || outcome == "failed_open" {
			r.Admitted += n
		} else {
			r.Refused += n
		}
	case "weir_shadow_total":
		if r := rule(); label("outcome") == "admitted" {
			r.ShadowAdmitted += n
		} else {
			r.ShadowRefused += n
		}
	case "weir_store_errors_total":
		if n > 0 {
			l.Store.Errors[label("kind")] += n
		}
	case "weir_store_breaker_open":
		l.Store.BreakerOpen = l.Store.BreakerOpen || n > 0
	case "weir_fail_open_active":
		l.Store.FailOpen = n > 0
	case "weir_store_unknown_total":
		l.Store.Unknown = n
	case "weir_store_clock_offset_seconds":
		if us := int64(math.Round(value * 1e6)); abs(us) > abs(l.Store.ClockOffsetUS) {
			l.Store.ClockOffsetUS = us
		}
	case "weir_instances":
		l.Store.Instances = n
	case "weir_deny_cache_hits_total":
		l.Store.DenyCacheHits = n
	case "weir_lease_units_total":
		switch label("what") {
		case "borrowed":
			l.Leases.Borrowed = n
		case "spent":
			l.Leases.Spent = n
		case "returned":
			l.Leases.Returned = n
		}
	case "weir_lease_out_units":
		l.Leases.Out = n
	case "weir_lease_overshoot_units":
		l.Leases.Peak = n
	case "weir_memory_keys":
		l.Memory.Keys = n
	case "weir_memory_bytes":
		l.Memory.Bytes = n
	case "weir_events_dropped_total":
		l.Memory.Dropped = n
	case "weir_config_last_reload_successful":
		l.Config.OK = n > 0
	case "weir_config_last_reload_timestamp_seconds":
		l.Config.SinceMS = int64(value * 1000)
	case "weir_config_info":
		l.Config.Version = label("version")
	}
}

func abs(n int64) int64 { return max(n, -n) }

// latency reads two quantiles off what a histogram gained since before, within a
// bucket by even spread; what is beyond the last bound is at it.
func latency(now, before *dto.Histogram) Latency {
	l := Latency{Count: int64(now.GetSampleCount())}
	old := before.GetBucket()
	gained := func(i int) float64 {
		n := now.GetBucket()[i].GetCumulativeCount()
		if i < len(old) {
			n -= old[i].GetCumulativeCount()
		}
		return float64(n)
	}
	all := float64(now.GetSampleCount() - before.GetSampleCount())
	quantile := func(q float64) int64 {
		from, below := 0.0, 0.0
		for i, b := range now.GetBucket() {
			to, n := b.GetUpperBound(), gained(i)
			if math.IsInf(to, 1) {
				break // it stands there where it has an exemplar
			}
			if n >= q*all && n > below {
				return int64(math.Round((from + (to-from)*(q*all-below)/(n-below)) * 1e6))
			}
			from, below = to, n
		}
		return int64(math.Round(from * 1e6))
	}
	if all > 0 {
		l.P50US, l.P99US = quantile(0.5), quantile(0.99)
	}
	return l
}
