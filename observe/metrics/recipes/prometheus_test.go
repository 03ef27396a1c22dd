package recipes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/testredis"
)

// policy has something of everything that is counted.
const policy = `
store: %s
listen: {http: %s, admin: %s}
max_overshoot: 10%%
events: {redis_stream: "weir:events", admitted: 10%%}
limits:
  - {name: per-key, key: [header:X-Key], limit: 20/min, try: 10/min}
  - {name: quiet, key: [header:X-Key], limit: 5/min, mode: shadow}
  - {name: hot, key: [all], limit: 1000000/s, match: {paths: [/hot]}}
`

// TestEveryExpressionHasData: a real Prometheus scrapes a daemon under a scripted
// load, and every expression of the dashboard, and every value that an alert
// looks at, has data, native histograms too.
func TestEveryExpressionHasData(t *testing.T) {
	server := testredis.Start(t)
	dir := t.TempDir()
	api, admin, own := freeAddr(t), freeAddr(t), freeAddr(t)
	write(t, filepath.Join(dir, "weir.yaml"), fmt.Sprintf(policy, server.URL(), api, admin))
	weir := filepath.Join(dir, "weir")
	if out, err := exec.Command("go", "build", "-o", weir, root+"/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run(t, weir, "serve", "-c", filepath.Join(dir, "weir.yaml"), "--drain-notice", "1ms")
	write(t, filepath.Join(dir, "alerts.yaml"), string(Alerts()))
	scrape := strings.NewReplacer("scrape_interval: 15s", "scrape_interval: 500ms", "127.0.0.1:8082", admin).Replace(string(Scrape()))
	write(t, filepath.Join(dir, "prometheus.yaml"), scrape)
	scraper := func(address string, more ...string) {
		run(t, "prometheus", append([]string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--log.level=warn",
			"--storage.tsdb.path=" + filepath.Join(dir, address), "--web.listen-address=" + address}, more...)...)
	}
	scraper(own)
	native := freeAddr(t) // one that takes native histograms takes no classic ones, at first
	scraper(native, "--enable-feature=native-histograms")

	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { putLoad(t, "http://"+api, stop) })
	defer load.Wait()
	defer close(stop)

	const nativeOnly = "histogram_count(rate(weir_decision_duration_seconds[10s])) > 0"
	left := map[string]bool{nativeOnly: true}
	for _, p := range panels() {
		for _, q := range p.queries {
			if strings.Contains(q.expr, "weir_regions_") {
				continue // served where there are several regions
			}
			left[strings.ReplaceAll(q.expr, every, "[10s]")] = true
		}
	}
	for _, a := range alerts() {
		for _, c := range a.conditions {
			left[strings.ReplaceAll(c.value, within, "[10s]")] = true
		}
	}
	asked := len(left)
	late := time.NewTimer(60 * time.Second)
	again := time.NewTicker(time.Second)
	defer late.Stop()
	defer again.Stop()
	for len(left) > 0 {
		select {
		case <-late.C:
			for expr := range left {
				t.Errorf("no data: %s", expr)
			}
			return
		case <-again.C:
		}
		for expr := range left {
			if hasData(own, expr) || expr == nativeOnly && hasData(native, expr) {
				delete(left, expr)
			}
		}
	}
	t.Logf("%d expressions have data", asked)
}

// putLoad asks for decisions until stop: admitted and refused ones, by several
// keys, and a hot key that is worth a lease.
func putLoad(t *testing.T, api string, stop chan struct{}) {
	ask := func(path, body string) {
		w, err := http.Post(api+path, "application/json", strings.NewReader(body))
		if err != nil {
			return // it is not up yet, or no longer
		}
		if w.StatusCode != http.StatusOK && w.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s %s: %s", path, body, w.Status)
		}
		_, _ = io.Copy(io.Discard, w.Body)
		_ = w.Body.Close()
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		ask("/v1/check", fmt.Sprintf(`{"path":"/a","headers":{"X-Key":["k%d"]}}`, i%20))
		ask("/v1/take", `{"key":"hot","limit":"1000000/s"}`)
		ask("/v1/take", `{"key":"none","limit":"1/min"}`)
	}
}

// hasData asks Prometheus at one instant.
func hasData(prometheus, expr string) bool {
	w, err := http.Get("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return false
	}
	defer w.Body.Close()
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	err = json.NewDecoder(w.Body).Decode(&answer)
	return err == nil && len(answer.Data.Result) > 0 && !strings.Contains(string(answer.Data.Result[0]), "NaN")
}

// run runs a program until the test ends.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (Debian: apt-get install prometheus)", err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.NewTimer(30 * time.Second)
		defer late.Stop()
		select {
		case <-exited:
		case <-late.C:
			_ = cmd.Process.Kill()
			<-exited
		}
		if t.Failed() {
			text := out.String()
			t.Logf("%s: %s", name, text[:min(len(text), 3000)])
		}
	})
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fires are series, a minute apart, under which each alert fires after half an
// hour or more, and those under which it does not.
var fires = map[string]struct{ series, quiet []string }{
	"WeirFailOpen":       {[]string{`weir_fail_open_active{instance="a"} 1x200`}, []string{`weir_fail_open_active{instance="a"} 0x200`}},
	"WeirStoreAway":      {[]string{`weir_store_breaker_open{instance="a"} 1x200`}, []string{`weir_store_breaker_open{instance="a"} 0x200`}},
	"WeirReloadFailed":   {[]string{`weir_config_last_reload_successful{instance="a"} 0x200`}, []string{`weir_config_last_reload_successful{instance="a"} 1x200`}},
	"WeirPoliciesDiffer": {[]string{`weir_config_info{version="1"} 1x200`, `weir_config_info{version="2"} 1x200`}, []string{`weir_config_info{version="1",instance="a"} 1x200`, `weir_config_info{version="1",instance="b"} 1x200`, `weir_config_info{version="2",job="staging"} 1x200`}},
	"WeirEventsLost":     {[]string{`weir_events_dropped_total{instance="a"} 0+1x200`}, []string{`weir_events_dropped_total{instance="a"} 7x200`}},
	"WeirClockOff":       {[]string{`weir_store_clock_offset_seconds{node="furthest"} -2x200`}, []string{`weir_store_clock_offset_seconds{node="furthest"} -0.5x200`}},
	"WeirStoreSlow": {
		[]string{`weir_store_duration_seconds_bucket{instance="a",le="0.01"} 0+10x200`, `weir_store_duration_seconds_bucket{instance="a",le="0.1"} 0+20x200`, `weir_store_duration_seconds_bucket{instance="a",le="+Inf"} 0+20x200`},
		[]string{`weir_store_duration_seconds_bucket{instance="a",le="0.01"} 0+20x200`, `weir_store_duration_seconds_bucket{instance="a",le="0.1"} 0+20x200`, `weir_store_duration_seconds_bucket{instance="a",le="+Inf"} 0+20x200`},
	},
	"WeirRefusalSpike": {
		[]string{`weir_decisions_total{outcome="admitted"} 0+600x200`, `weir_decisions_total{outcome="limited"} 0+1x90 91+600x110`, `weir_decisions_total{outcome="admitted",job="staging"} 0+6000x200`},
		[]string{`weir_decisions_total{outcome="admitted"} 0+600x200`, `weir_decisions_total{outcome="limited"} 0+600x200`},
	},
}

// TestAlertsFireWhenTheyShould, by Prometheus' own tool.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "alerts.yaml"), string(Alerts()))
	var b strings.Builder
	b.WriteString("rule_files: [alerts.yaml]\nevaluation_interval: 1m\ntests:\n")
	test := func(name string, series []string, count string) {
		fmt.Fprintf(&b, "  - interval: 1m\n    input_series:\n")
		for _, s := range series {
			i := strings.Index(s, "} ") + 1
			fmt.Fprintf(&b, "      - series: '%s'\n        values: '%s'\n", s[:i], s[i+1:])
		}
		fmt.Fprintf(&b, "    promql_expr_test:\n      - expr: count(ALERTS{alertname=%q,alertstate=\"firing\"}) or vector(0)\n        eval_time: 110m\n        exp_samples: [{value: %s, labels: '{}'}]\n", name, count)
	}
	for _, a := range alerts() {
		f, ok := fires[a.name]
		if !ok {
			t.Errorf("nobody says when %s fires", a.name)
		}
		test(a.name, f.series, "1")
		test(a.name, f.quiet, "0")
	}
	write(t, filepath.Join(dir, "test.yaml"), b.String())
	if out, err := exec.Command("promtool", "test", "rules", filepath.Join(dir, "test.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v (Debian: apt-get install prometheus)\n%s", err, out)
	}
	write(t, filepath.Join(dir, "prometheus.yaml"), regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(Scrape()), ""))
	if out, err := exec.Command("promtool", "check", "config", filepath.Join(dir, "prometheus.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
