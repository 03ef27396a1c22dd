// Package recipes makes what shows the metrics from their definitions: a dashboard
// for Grafana, alerts and a scrape configuration for Prometheus, and the tables of
// docs/observability.md. The files under deploy/ are what it makes; a test holds
// them to it, and scrapes a daemon with a real Prometheus to see that every
// expression has data.
package recipes

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/observe/metrics"
)

// panel is one of the dashboard. Expressions name metrics by name(), which knows
// only those that are defined.
type panel struct {
	title, unit, about string
	kind               string // timeseries, stat or table
	queries            []query
}

type query struct{ expr, legend string }

// name returns a metric's name, or of a histogram that of one of its parts. For one
// that is not defined it returns what a test looks for.
func name(s string) string {
	for _, d := range metrics.Definitions {
		if s = "weir_" + strings.TrimPrefix(s, "weir_"); d.Name == s {
			return s
		}
		for _, part := range []string{"_sum", "_count", "_bucket"} {
			if d.Kind == metrics.Histogram && d.Name+part == s {
				return s
			}
		}
	}
	return undefined + s
}

const undefined = "undefined_"

const every = "[$__rate_interval]"

// refusals are the outcomes of decisions that refuse.
const refusals = `outcome=~"limited|too_large|blocked|missing|failed_closed"`

// quantile is one of a histogram, from its classic buckets, which every
// Prometheus has.
func quantile(q, histogram, by string) string {
	if by != "" {
		by = ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%s, sum by (le%s) (rate(%s_bucket%s)))", q, by, name(histogram), every)
}

func rate(metric, matchers, by string) string {
	if matchers != "" {
		matchers = "{" + matchers + "}"
	}
	if by != "" {
		by = " by (" + by + ")"
	}
	return fmt.Sprintf("sum%s (rate(%s%s%s))", by, name(metric), matchers, every)
}

// panels are those that are put together below, and one for each metric that is
// in none of them.
func panels() []panel {
	all := composed()
	for _, d := range metrics.Definitions {
		shown := false
		for _, p := range all {
			for _, q := range p.queries {
				shown = shown || strings.Contains(q.expr, d.Name)
			}
		}
		if !shown {
			all = append(all, single(d))
		}
	}
	return all
}

// single is the panel of one metric.
func single(d metrics.Definition) panel {
	q := query{d.Name, "{{instance}}"}
	unit := "short"
	switch {
	case d.Kind == metrics.Counter:
		q.expr = rate(d.Name, "", strings.Join(d.Labels, ", "))
		unit = "reqps"
	case d.Kind == metrics.Histogram:
		q.expr = quantile("0.99", d.Name, "")
	case strings.HasSuffix(d.Name, "_timestamp_seconds"):
		q.expr, unit = d.Name+" * 1000", "dateTimeFromNow"
	}
	for _, label := range d.Labels {
		q.legend += " {{" + label + "}}"
	}
	title := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(d.Name, "weir_"), "_total"), "_", " ")
	return panel{strings.ToUpper(title[:1]) + title[1:], unit, d.Help, "timeseries", []query{q}}
}

func composed() []panel {
	return []panel{
		{"Decisions", "reqps", "By what came of them.", "timeseries", []query{{rate("decisions_total", "", "outcome"), "{{outcome}}"}}},
		{"Refused, by rule", "reqps", "Which rule decided.", "timeseries", []query{{rate("decisions_total", refusals, "rule"), "{{rule}}"}}},
		{"Share refused", "percentunit", "Of all decisions.", "timeseries", []query{
			{rate("decisions_total", refusals, "") + " / (" + rate("decisions_total", "", "") + " > 0)", "refused"},
		}},
		{"Who decided", "reqps", "The store, a layer in front of it, or the limits' own answers.", "timeseries", []query{{rate("decisions_total", "", "source"), "{{source}}"}}},
		{"Doors", "reqps", "", "timeseries", []query{{rate("decisions_total", "", "door"), "{{door}}"}}},
		{"Time of a decision", "s", "From asking the limiter to its answer.", "timeseries", []query{
			{quantile("0.5", "decision_duration_seconds", ""), "half"}, {quantile("0.99", "decision_duration_seconds", ""), "99 of 100"},
		}},
		{"Time of a store call", "s", "One call decides many bills.", "timeseries", []query{
			{quantile("0.5", "store_duration_seconds", ""), "half"}, {quantile("0.99", "store_duration_seconds", ""), "99 of 100"},
			{quantile("0.99", "store_queue_seconds", ""), "waiting, 99 of 100"},
		}},
		{"Bills in a store call", "short", "", "timeseries", []query{
			{rate("store_batch_bills_sum", "", "") + " / (" + rate("store_batch_bills_count", "", "") + " > 0)", "on average"},
		}},
		{"Store errors", "reqps", "Bills that the store did not decide.", "timeseries", []query{{rate("store_errors_total", "", "kind"), "{{kind}}"}}},
		{"Store away, failing open", "short", "1 where it is so.", "timeseries", []query{
			{name("store_breaker_open"), "store away: {{instance}}"}, {name("fail_open_active"), "failing open: {{instance}}"},
		}},
		{"Outcome unknown", "reqps", "Bills without the store's answer, which may have been charged.", "timeseries", []query{{rate("store_unknown_total", "", ""), "unknown"}}},
		{"Clock of the store", "s", "Ahead of this machine's.", "timeseries", []query{{name("store_clock_offset_seconds"), "{{instance}} {{node}}"}}},
		{"Spared the store", "reqps", "", "timeseries", []query{
			{rate("deny_cache_hits_total", "", ""), "refusals from the deny cache"}, {rate("lease_units_total", `what="spent"`, ""), "units from leases"},
		}},
		{"Leases", "short", "Units.", "timeseries", []query{
			{name("lease_out_units"), "out: {{instance}}"}, {name("lease_overshoot_units"), "most over a limit: {{instance}}"},
			{rate("lease_units_total", "", "what"), "{{what}}/s"},
		}},
		{"Balances in memory", "short", "", "timeseries", []query{{name("memory_keys"), "{{instance}}"}}},
		{"Memory of balances", "bytes", "", "timeseries", []query{{name("memory_bytes"), "{{instance}}"}, {rate("memory_evicted_total", "", ""), "gave way/s"}}},
		{"Limits on trial", "reqps", "The live limit's answer and the one on trial's.", "timeseries", []query{
			{rate("try_total", "", "rule, live, try"), "{{rule}}: {{live}} → {{try}}"}, {rate("shadow_total", "", "rule, outcome"), "{{rule}} (shadow): {{outcome}}"},
		}},
		{"What was lost, what is owed", "short", "Times the store lost its data, and units admitted without it that are still to be debited.", "timeseries", []query{
			{"sum (increase(" + name("store_losses_total") + every + "))", "losses"}, {"sum (" + name("debt_units") + ")", "owed"}, {rate("debt_units_total", "", "outcome"), "{{outcome}}/s"},
		}},
		{"Other regions", "short", "Keys a region has not heard of, regions cut off, units guessed for them; the most beyond a limit.", "timeseries", []query{
			{name("regions_behind_keys"), "behind: {{instance}}"}, {name("regions_cut_off"), "cut off: {{instance}}"},
			{rate("regions_guessed_units_total", "", ""), "guessed/s"}, {"max by (rule) (" + name("regions_overshoot_bound") + ")", "bound: {{rule}}"},
		}},
		{"Between regions", "short", "", "timeseries", []query{
			{rate("regions_changes_total", "", "way"), "{{way}}/s"}, {rate("regions_sent_bytes_total", "", ""), "bytes/s"},
			{"max (" + name("regions_trip_seconds") + ")", "trip"},
		}},
		{"Events", "reqps", "", "timeseries", []query{{rate("events_written_total", "", ""), "written"}, {rate("events_dropped_total", "", ""), "lost"}}},
		{"Policy", "short", "The version in force, by instance.", "table", []query{{name("config_info"), "{{version}}"}}},
		{"Last reload", "short", "0: a changed file is wrong.", "stat", []query{{"min (" + name("config_last_reload_successful") + ")", "right"}}},
		{"Instances", "short", "", "stat", []query{{"max (" + name("instances") + ")", "alive"}, {"count by (version) (" + name("build_info") + ")", "{{version}}"}}},
		{"Not looked at", "reqps", "Refusals left out of the log, and clocks that were stepped.", "timeseries", []query{
			{rate("refusals_not_logged_total", "", ""), "not logged"}, {rate("clock_steps_total", "", ""), "clock steps"},
		}},
	}
}
