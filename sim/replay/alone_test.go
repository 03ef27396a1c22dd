package replay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirhq/weir/sim/accesslog"
)

// TestEachAsAlone: of random rules, each refuses in company what it refuses in a
// policy of its own.
func TestEachAsAlone(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	name, _ := syntheticLog(t, 300<<10)
	parted, refusals := 0, int64(0)
	for range 10 {
		var rules []string
		for i := range 2 + random.IntN(4) {
			limit := fmt.Sprintf("%d/%s algorithm=%s", 2+random.IntN(30), pick("s", "min", "h"), pick("token_bucket", "token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log"))
			rules = append(rules, fmt.Sprintf("  - {name: r%d, key: [%s], limit: %s%s%s%s%s%s}\n", i, pick("ip", "ip", "ip, route", "all", "'query:id'", "'query:id', 'header:Referer'"), limit,
				pick("", ", try: 5/min", ", try: 20/h algorithm=fixed_window"), pick("", "", ", mode: shadow"),
				pick("", "", ", cost: {default: 2}"), pick("", "", ", on_missing: deny"), pick("", ", match: {paths: [/api/**]}", ", match: {paths: [/static/**, /images/**]}", ", match: {methods: [POST]}")))
		}
		policy := func(list ...string) string {
			text := "limits:\n"
			for _, r := range list {
				text += r
			}
			return text
		}
		var alone []Rule
		for _, r := range rules {
			alone = append(alone, readLog(t, policyOf(t, policy(r)).Policy, accesslog.Options{}, name).Rules...)
		}
		run, err := New(policyOf(t, policy(rules...)).Policy, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		files, err := accesslog.Open([]string{name}, accesslog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := run.Read(t.Context(), files, nil); err != nil {
			t.Fatal(err)
		}
		report := run.Report(files.Summary())
		for i, r := range report.Rules {
			if a, b := asJSON(t, &Report{Rules: []Rule{r}}), asJSON(t, &Report{Rules: alone[i : i+1]}); a != b || r.Headroom != alone[i].Headroom {
				t.Fatalf("%s%s, %d%% left\nalone\n%s, %d%% left", policy(rules...), a, r.Headroom, b, alone[i].Headroom)
			}
			refusals += r.Denied
		}
		parted += len(run.alone.copies)
		files.Close()
		if err := run.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if parted < 50 || refusals < 500 {
		t.Errorf("%d balances parted, %d refusals: the test shows nothing", parted, refusals)
	}
}

// TestNoRoomAlone: where there is no room for what rules alone would have charged,
// the report says of how many balances.
func TestNoRoomAlone(t *testing.T) {
	log := ""
	for i := range 20 {
		log += at(i, "192.0.2.1", "GET /") + at(i, "192.0.2.2", "GET /")
	}
	run, err := New(policyOf(t, "limits:\n  - {name: tight, key: [all], limit: 6/h}\n  - {name: wide, key: [ip], limit: 8/h}\n").Policy, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	run.alone.room = loneBytes // for one
	files, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: strings.NewReader(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := run.Read(t.Context(), files, nil); err != nil {
		t.Fatal(err)
	}
	if r := run.Report(files.Summary()); r.Evicted == 0 || len(run.alone.copies) != 1 || r.Rules[1].Denied != 12 {
		t.Errorf("%d copies, %d short: %s", len(run.alone.copies), r.Evicted, asJSON(t, r))
	}
}
