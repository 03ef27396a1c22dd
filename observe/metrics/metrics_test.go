package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/observe"
)

// scrape returns the series as Prometheus reads them, in the form that accept
// asks for.
func scrape(t *testing.T, m *Metrics, accept string) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	series := map[string]string{}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if open := strings.LastIndexByte(lines.Text(), '}'); open > 0 && !strings.Contains(value, "# {") {
				name, value = lines.Text()[:open+1], lines.Text()[open+2:]
			}
			if strings.HasPrefix(name, "weir_") {
				series[name] = value
			}
		}
	}
	return series
}

// note is the Note of a bill with rules.
type note struct {
	rules []string
	try   int // 0 for none
}

func (note) DoorName() string     { return "http" }
func (note) TenantName() string   { return "" }
func (note) PlanName() string     { return "" }
func (note) RouteName(int) string { return "" }
func (n note) IsTry(i int) bool   { return n.try > 0 && n.try == i }
func (n note) RuleName(i int) string {
	if i < 0 || i >= len(n.rules) {
		return ""
	}
	return n.rules[i]
}

// TestAMillionKeysAddNoSeries: what callers choose is no label.
func TestAMillionKeysAddNoSeries(t *testing.T) {
	m := New(Options{Version: "v"})
	l, err := weir.New(weir.Options{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	limit := weir.PerMinute(1)
	for range 2 { // one admitted and one refused
		if _, err := l.Allow(ctx, "first", limit); err != nil {
			t.Fatal(err)
		}
	}
	before := len(scrape(t, m, ""))
	for i := range 1_000_000 {
		if _, err := l.Allow(ctx, "key "+strconv.Itoa(i), limit); err != nil {
			t.Fatal(err)
		}
	}
	after := scrape(t, m, "")
	if len(after) != before {
		t.Errorf("%d series, %d after a million keys", before, len(after))
	}
	if got := after[`weir_decisions_total{door="go",outcome="admitted",rule="adhoc",source="memory"}`]; got != "1.000001e+06" {
		t.Errorf("%q admitted", got)
	}
}

// TestRulesAreBounded: beyond 1,000 rules, and whatever door or source they name,
// everything is counted under other.
func TestRulesAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 3000 {
		b := &weir.Bill{
			Charges: make([]weir.Charge, 1), Each: make([]weir.Decision, 1), Note: note{rules: []string{fmt.Sprint("rule ", i)}},
			Decision: weir.Decision{Allowed: true, Source: fmt.Sprint("source ", i)},
		}
		m.Observe(context.Background(), weir.Event{Bill: b})
	}
	rules, n := 0, ""
	for name, value := range scrape(t, m, "") {
		if strings.HasPrefix(name, "weir_decisions_total{") {
			rules++
			if strings.Contains(name, `rule="other"`) {
				n = value
			}
		}
	}
	if rules != maxRules+1 || n != "2000" {
		t.Errorf("%d rules, %s others", rules, n)
	}
}

// TestSeriesAreThereBeforeTheyCount: rate() needs the 0.
func TestSeriesAreThereBeforeTheyCount(t *testing.T) {
	m := New(Options{})
	m.Expect([]Rule{{Name: "login"}, {Name: "soft", Shadow: true}, {Name: "trial", Try: true}}, "redis", []string{"http", "proxy"})
	m.Reloaded(true, "abc")
	series := scrape(t, m, "")
	for _, name := range []string{
		`weir_decisions_total{door="http",outcome="admitted",rule="login",source="redis"}`,
		`weir_decisions_total{door="proxy",outcome="limited",rule="login",source="redis"}`,
		`weir_decisions_total{door="http",outcome="limited",rule="adhoc",source="redis"}`,
		`weir_shadow_total{outcome="denied",rule="soft"}`,
		`weir_try_total{live="denied",rule="trial",try="admitted"}`,
		`weir_store_errors_total{kind="timeout"}`,
		`weir_events_dropped_total`, `weir_fail_open_active`, `weir_store_breaker_open`, `weir_decision_duration_seconds_count`,
		`weir_store_duration_seconds_count`, `weir_store_batch_bills_count`, `weir_lease_units_total{what="spent"}`,
	} {
		if series[name] != "0" {
			t.Errorf("%s is %q, want 0", name, series[name])
		}
	}
	for _, name := range []string{`weir_config_last_reload_successful`, `weir_config_info{version="abc"}`, `weir_instances`} {
		if series[name] != "1" {
			t.Errorf("%s is %q, want 1", name, series[name])
		}
	}
	for _, d := range Definitions { // each metric that is described is there, but for what only a store knows
		found := d.Name == clockOffset.Name || strings.HasPrefix(d.Name, "weir_regions_") // served where there are several
		for name := range series {
			found = found || name == d.Name || strings.HasPrefix(name, d.Name+"{") || strings.HasPrefix(name, d.Name+"_count")
		}
		if !found {
			t.Errorf("%s is not served", d.Name)
		}
	}
}

// TestRegionsAreServed: each of their metrics, before anything is counted, and what
// went wrong by its cause.
func TestRegionsAreServed(t *testing.T) {
	m := New(Options{})
	var now Regions
	m.Read(Sources{Regions: func() Regions { return now }})
	series := scrape(t, m, "")
	for _, name := range []string{
		"weir_regions_behind_keys", "weir_regions_cut_off", `weir_regions_changes_total{way="told"}`, `weir_regions_changes_total{way="heard"}`,
		"weir_regions_sent_bytes_total", "weir_regions_guessed_units_total", "weir_regions_trip_seconds",
		`weir_regions_lost_changes_total{cause="unread"}`, `weir_regions_lost_changes_total{cause="forgotten"}`,
	} {
		if series[name] != "0" {
			t.Errorf("%s is %q, want 0", name, series[name])
		}
	}
	now = Regions{Unread: 3, Forgotten: 4}
	series = scrape(t, m, "")
	if u, f := series[`weir_regions_lost_changes_total{cause="unread"}`], series[`weir_regions_lost_changes_total{cause="forgotten"}`]; u != "3" || f != "4" {
		t.Errorf("%s unread and %s forgotten, want 3 and 4", u, f)
	}
}

// TestTrialsAreCountedTwoByTwo, and peeks not at all.
func TestTrialsAreCountedTwoByTwo(t *testing.T) {
	m := New(Options{})
	l, err := weir.New(weir.Options{Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	live, try, shadow := weir.PerMinute(4), weir.PerMinute(2), weir.PerMinute(3)
	b := weir.Bill{Note: note{rules: []string{"r", "r", "s"}, try: 1}}
	for range 5 {
		b.Charges = []weir.Charge{live.Charge("k"), try.Charge("k"), shadow.Charge("k")}
		b.Charges[1].Trial, b.Charges[1].Space, b.Charges[2].Trial, b.Charges[2].Space = 1, "try", -1, "shadow"
		if err := l.Decide(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
	}
	b.Verb = algo.Peek
	if err := l.Decide(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	series := scrape(t, m, "")
	for name, want := range map[string]string{
		`weir_try_total{live="admitted",rule="r",try="admitted"}`:                       "2",
		`weir_try_total{live="admitted",rule="r",try="denied"}`:                         "2",
		`weir_try_total{live="denied",rule="r",try="denied"}`:                           "1",
		`weir_shadow_total{outcome="admitted",rule="s"}`:                                "3",
		`weir_decisions_total{door="http",outcome="admitted",rule="r",source="memory"}`: "4",
		`weir_decisions_total{door="http",outcome="limited",rule="r",source="memory"}`:  "1",
	} {
		if series[name] != want {
			t.Errorf("%s is %q, want %s", name, series[name], want)
		}
	}
}

// broken is a store that is away.
type broken struct{ weir.Store }

func (broken) Apply(_ context.Context, bills []*weir.Bill) {
	for _, b := range bills {
		b.Err = &weir.StoreError{Kind: "unreachable", Err: errors.New("nobody there"), Unreachable: true}
	}
}

func TestAStoreThatIsAway(t *testing.T) {
	m := New(Options{})
	l, err := weir.New(weir.Options{Observer: m, Store: broken{weir.NewMemory(weir.MemoryOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []weir.Failure{weir.Open, weir.Closed, weir.Local} {
		if _, err := l.Allow(context.Background(), "k", weir.PerMinute(9).OnFailure(f)); err != nil {
			t.Fatal(err)
		}
	}
	door := observe.Door("resp")
	if err := l.Decide(context.Background(), &weir.Bill{Note: &door, Charges: []weir.Charge{weir.PerMinute(9).Charge("k")}}); err != nil {
		t.Fatal(err)
	}
	series := scrape(t, m, "")
	for name, want := range map[string]string{
		`weir_decisions_total{door="go",outcome="failed_open",rule="adhoc",source="none"}`:   "1",
		`weir_decisions_total{door="go",outcome="failed_closed",rule="adhoc",source="none"}`: "1",
		`weir_decisions_total{door="go",outcome="admitted",rule="adhoc",source="local"}`:     "1",
		`weir_decisions_total{door="resp",outcome="admitted",rule="adhoc",source="local"}`:   "1",
		`weir_store_errors_total{kind="unreachable"}`:                                        "4",
		`weir_fail_open_active`: "1",
	} {
		if series[name] != want {
			t.Errorf("%s is %q, want %s", name, series[name], want)
		}
	}
}

// TestExemplarsNameTheTrace, to those who ask for OpenMetrics.
func TestExemplarsNameTheTrace(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	var recorded atomic.Bool
	m := New(Options{Trace: func(context.Context) string {
		if recorded.Load() {
			return trace
		}
		return ""
	}})
	b := &weir.Bill{}
	m.Observe(context.Background(), weir.Event{Bill: b, Elapsed: time.Millisecond})
	found := func() bool {
		for name, value := range scrape(t, m, "application/openmetrics-text") {
			if strings.HasPrefix(name, "weir_decision_duration_seconds_bucket") && strings.Contains(value, `# {trace_id="`+trace+`"}`) {
				return true
			}
		}
		return false
	}
	if found() {
		t.Error("an exemplar of a trace that is not recorded")
	}
	recorded.Store(true)
	m.Observe(context.Background(), weir.Event{Bill: b, Elapsed: time.Millisecond})
	if !found() {
		t.Error("no exemplar")
	}
}
