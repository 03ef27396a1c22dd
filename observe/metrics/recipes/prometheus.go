package recipes

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/observe/metrics"
)

// alert is one alert rule: it fires where all its conditions hold.
type alert struct {
	name            string
	conditions      []condition
	lasts, severity string
	summary, about  string
}

// condition compares the value of an expression.
type condition struct{ value, than string }

func (a *alert) expr() string {
	var parts []string
	for _, c := range a.conditions {
		parts = append(parts, c.value+" "+c.than)
	}
	return strings.Join(parts, " and ")
}

// within is the span that alerts look at.
const within = "[5m]"

func alertRate(metric, matchers string) string {
	return strings.ReplaceAll(rate(metric, matchers, "job"), every, within)
}

// alerts look at instances, or at the job that instances belong to: what is scraped
// beside it, such as a staging of its own policy, is another service.
func alerts() []alert {
	refused := alertRate("decisions_total", refusals)
	all := alertRate("decisions_total", "")
	return []alert{
		{"WeirFailOpen", []condition{{"max by (instance) (" + name("fail_open_active") + ")", "== 1"}}, "0m", "critical",
			"Weir admits requests unchecked",
			"The store cannot be reached, and limits with on_store_failure: open admit everything on {{ $labels.instance }}."},
		{"WeirStoreAway", []condition{{"max by (instance) (" + name("store_breaker_open") + ")", "== 1"}}, "1m", "critical",
			"Weir has no store",
			"{{ $labels.instance }} decides without the store, by what each limit states for that case."},
		{"WeirStoreSlow", []condition{{strings.ReplaceAll(quantile("0.99", "store_duration_seconds", "instance"), every, within), "> 0.025"}}, "5m", "warning",
			"The store is slow",
			"One store call in a hundred takes more than 25 ms on {{ $labels.instance }}; a decision has 50 ms unless decision_timeout says otherwise."},
		{"WeirRefusalSpike", []condition{{refused + " / (" + all + " > 1)", "> 0.2"}, {refused, "> 3 * " + strings.Replace(refused, within, within+" offset 1h", 1)}}, "5m", "warning",
			"Many requests are refused",
			"More than a fifth of all requests of {{ $labels.job }} are refused, and three times as many as an hour ago. weir top shows whose."},
		{"WeirReloadFailed", []condition{{"min by (instance) (" + name("config_last_reload_successful") + ")", "== 0"}}, "1m", "warning",
			"A policy file is wrong",
			"The policy file of {{ $labels.instance }} was changed and is wrong; the one before it is in force. Its log says where."},
		{"WeirPoliciesDiffer", []condition{{"count by (job) (count by (job, version) (" + name("config_info") + "))", "> 1"}}, "10m", "warning",
			"Instances have different policies",
			"More than one version of the policy is in force in {{ $labels.job }} for ten minutes."},
		{"WeirEventsLost", []condition{{"sum by (instance) (increase(" + name("events_dropped_total") + within + "))", "> 0"}}, "0m", "warning",
			"Events are lost",
			"Events of {{ $labels.instance }} do not fit the buffer: the stream or the disk does not take them."},
		{"WeirClockOff", []condition{{"abs(" + name("store_clock_offset_seconds") + ")", "> 1"}}, "5m", "warning",
			"A clock is off",
			"The store's clock and that of {{ $labels.instance }} differ by more than a second."},
	}
}

// Alerts returns the alert rules as Prometheus reads them.
func Alerts() []byte {
	var b strings.Builder
	b.WriteString(generated + "groups:\n  - name: weir\n    rules:\n")
	for _, a := range alerts() {
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %q\n        for: %s\n        labels: {severity: %s}\n        annotations:\n          summary: %q\n          description: %q\n",
			a.name, a.expr(), a.lasts, a.severity, a.summary, a.about)
	}
	return []byte(b.String())
}

const generated = "# Made from the metric definitions in observe/metrics: make recipes\n"

// Scrape returns a configuration for Prometheus: the admin door of a daemon, with
// native histograms.
func Scrape() []byte {
	return []byte(generated + `global:
  scrape_interval: 15s
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: weir
    # The dashboard asks for classic histograms. Native ones come with
    # --enable-feature=native-histograms (2.40 and later), and then the classic ones
    # stay only with scrape_classic_histograms: true (2.45 and later; 3.0 says
    # always_scrape_classic_histograms).
    # authorization: {credentials_file: admin.token} # unless metrics: {auth: none}
    static_configs:
      - targets: [127.0.0.1:8082]
`)
}

// Table returns the metrics as a table in Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it says |\n|---|---|---|---|\n")
	for _, d := range metrics.Definitions {
		labels := "–"
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, labels, d.Help)
	}
	return b.String()
}

// AlertTable returns the alerts as a table in Markdown.
func AlertTable() string {
	var b strings.Builder
	b.WriteString("| alert | severity | says |\n|---|---|---|\n")
	for _, a := range alerts() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", a.name, a.severity, a.about)
	}
	return b.String()
}
