package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/observe/stream"
)

// TestReport sums weights by rule, caller and hour, the same from every database.
func TestReport(t *testing.T) {
	all := databases(t)
	all["postgres"] = startPostgres(t)
	const hour = 1764460800000
	events := []stream.Event{
		{ID: "1", TimeMS: hour, Rule: "login", KeyHash: "a", Reason: "limited", Weight: 1},
		{ID: "2", TimeMS: hour + 3_599_999, Rule: "login", KeyHash: "b", Reason: "limited", Weight: 1},
		{ID: "3", TimeMS: hour + 3_600_000, Rule: "login", KeyHash: "a", Reason: "limited", Weight: 1},
		{ID: "4", TimeMS: hour, Rule: "login", KeyHash: "a", Allowed: true, Reason: "ok", Weight: 100.0 / 3},
		{ID: "5", TimeMS: hour, Rule: "login", KeyHash: "c", Allowed: true, Reason: "ok", Weight: 100.0 / 3},
		{ID: "6", TimeMS: hour, Rule: "login", KeyHash: "d", Allowed: true, Reason: "ok", Weight: 100.0 / 3},
		{ID: "7", TimeMS: hour, Rule: "all\x1b[31m", KeyHash: "", Reason: "missing", Tenant: "\x00\xff", Weight: 1},
	}
	for name, to := range all {
		t.Run(name, func(t *testing.T) {
			target, err := openTarget(context.Background(), to)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time they are known
				if _, err := target.keep(context.Background(), "", batch{events: events}); err != nil {
					t.Fatal(err)
				}
			}
			if err := target.close(); err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.Unmarshal([]byte(must(t, "report", "--from", to, "--json")), &r); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			const want = `{"from":"2025-11-30T00:00:00Z","to":"2025-11-30T01:00:00Z",` +
				`"rules":[{"rule":"login","admitted":100,"denied":3},{"rule":"all\u001b[31m","admitted":0,"denied":1}],` +
				`"callers":[{"key":"a","denied":2},{"key":"b","denied":1}],` +
				`"hours":[{"hour":"2025-11-30T00:00:00Z","rule":"all\u001b[31m","denied":1},{"hour":"2025-11-30T00:00:00Z","rule":"login","denied":2},{"hour":"2025-11-30T01:00:00Z","rule":"login","denied":1}]}`
			if string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if text := must(t, "report", "--from", to); strings.Contains(text, "\x1b") || !strings.Contains(text, `all\u001b[31m`) {
				t.Errorf("%q", text)
			}
			if text := must(t, "report", "--from", to, "--since", "1h"); !strings.Contains(text, "there are no events") {
				t.Errorf("of the last hour: %q", text)
			}
		})
	}
}

// TestWrongUsage ends with 2, and shows no password.
func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"consume", "--to", "sqlite:" + t.TempDir() + "/z"}, {"consume", "--store", "memory", "--to", "jsonl:" + t.TempDir() + "/x"}, {"consume", "--store", "redis://u:s3cr3t@h:x", "--to", "jsonl:" + t.TempDir() + "/y"},
		{"consume", "--store", "redis://h", "--to", "mysql://u:s3cr3t@h"}, {"report", "--from", "jsonl:/nowhere/x"}, {"report", "--form", "x"},
		{"report", "--from", "jsonl:/dev/null", "--since", "-1h"}, {"report", "--from", "jsonl:/dev/null", "--callers", "-1"},
	} {
		if out, status := finish(t, args...); status != exitUsage || !strings.HasPrefix(out, "weir-events: error: ") || strings.Contains(out, "s3cr3t") {
			t.Errorf("%v ends with %d: %s", args, status, out)
		}
	}
}

// TestAReportNamesAsManyCallersAsItIsAsked: from a database as from lines.
func TestAReportNamesAsManyCallersAsItIsAsked(t *testing.T) {
	var events []stream.Event
	for i := range 1200 {
		events = append(events, stream.Event{ID: fmt.Sprint(i), KeyHash: fmt.Sprintf("k%04d", i), Weight: 1})
	}
	for name, to := range databases(t) {
		target, err := openTarget(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target.keep(t.Context(), "", batch{events: events}); err != nil {
			t.Fatal(err)
		}
		if err := target.close(); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{3, 1100} {
			var r report
			if err := json.Unmarshal([]byte(must(t, "report", "--from", to, "--json", "--callers", fmt.Sprint(n))), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Callers) != n || r.Callers[n-1].Key != fmt.Sprintf("k%04d", n-1) {
				t.Errorf("%s: %d callers of %d, the last %v", name, len(r.Callers), n, r.Callers[len(r.Callers)-1])
			}
		}
	}
}

// TestAReportMakesNothing: who misspells a database hears of it, and is not told that
// there were no events in it; and who may only read may have a report.
func TestAReportMakesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "misspelt.db")
	if out, status := finish(t, "report", "--from", "sqlite:"+file); status == 0 || !strings.Contains(out, "misspelt.db") {
		t.Errorf("of no file it ends with %d: %s", status, out)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it makes the file: %v", err)
	}
	url := startPostgres(t)
	if out, status := finish(t, "report", "--from", url); status == 0 || !strings.Contains(out, "weir_events") {
		t.Errorf("of a database without tables it ends with %d: %s", status, out)
	}
	target, err := openTarget(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer target.close()
	if _, err := target.keep(t.Context(), "", batch{events: []stream.Event{{ID: "1", Rule: "login", Weight: 1}}}); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE ROLE reader LOGIN", "GRANT SELECT ON weir_events TO reader",
		"CREATE ROLE writer LOGIN", "GRANT SELECT, INSERT, UPDATE ON weir_events, weir_positions TO writer",
	} {
		if _, err := target.(*sqlTarget).db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if out := must(t, "report", "--from", strings.Replace(url, "weir@", "reader@", 1)); !strings.Contains(out, "login") {
		t.Error(out)
	}
	// Nor need who writes be allowed to make tables that are there.
	line, err := (&stream.Event{ID: "2", Rule: "search", Weight: 1}).AppendLine(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "events.000001.jsonl"), line, 0o600); err != nil {
		t.Fatal(err)
	}
	out := must(t, "consume", "--once", "--store", "file:"+filepath.Join(dir, "events.jsonl"), "--to", strings.Replace(url, "weir@", "writer@", 1))
	if !strings.Contains(out, "1 events kept") {
		t.Error(out)
	}
}
