package replay

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/sim/accesslog"
)

// countFixed counts what a limit of n a minute for each client refuses, in the
// plainest way: a map, and no part of Weir.
func countFixed(t *testing.T, name string, n int) (requests, refused, clients int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	used := map[string]int{}
	hit := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		at, err := time.Parse("[02/Jan/2006:15:04:05", words[3])
		if err != nil {
			t.Fatal(err)
		}
		requests++
		minute := fmt.Sprint(words[0], at.Unix()/60)
		if used[minute]++; used[minute] > n {
			refused++
			hit[words[0]] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests, refused, int64(len(hit))
}

// TestCount holds the replay of a synthetic log against counts made without it,
// rule by rule in one policy.
func TestCount(t *testing.T) {
	name, _ := syntheticLog(t, 3<<20)
	p := perClient(t, "4/min algorithm=fixed_window", "7/min algorithm=fixed_window", "10/min algorithm=fixed_window")
	report := readLog(t, p, accesslog.Options{}, name)
	for i, n := range []int{4, 7, 10} {
		requests, refused, clients := countFixed(t, name, n)
		r := report.Rules[i]
		if report.Requests != requests || r.Denied != refused || r.CallersDenied != clients || refused == 0 {
			t.Errorf("%d/min: %d of %d callers refused, counted %d of %d", n, r.Denied, r.CallersDenied, refused, clients)
		}
	}
	if _, refused, _ := countFixed(t, name, 4); report.Denied != refused {
		t.Errorf("the policy refuses %d; its tightest limit %d", report.Denied, refused)
	}
	// A rule for some paths, among rules for all.
	ten := readLog(t, tenRules(t), accesslog.Options{}, name)
	if len(ten.Rules) != 10 || ten.Rules[4].Matched == 0 || ten.Rules[4].Matched == ten.Requests || ten.Rules[9].Callers != 1 {
		t.Errorf("%+v", ten.Rules)
	}
}

// TestTakeIsRead: requests one by one give what a log read on several cores gives.
func TestTakeIsRead(t *testing.T) {
	name, _ := syntheticLog(t, 2<<20)
	p := tenRules(t)
	read := readLog(t, p, accesslog.Options{}, name)
	run, err := New(p, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	files, err := accesslog.Open([]string{name}, accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := ReadInto(t.Context(), files, func() {}, run); err != nil {
		t.Fatal(err)
	}
	if one, other := asJSON(t, run.Report(files.Summary())), asJSON(t, read); one != other {
		t.Errorf("one by one\n%s\nread\n%s", one, other)
	}
}
