package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRead: whatever log there is ends in a report whose numbers add up, and in
// a page.
func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("../accesslog/testdata/*.log")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(at(0, "a", "GET /a;b/%2F..") + at(-90_000_000, "192.0.2.1", "POST //") + at(1<<30, "::1", "GET /"))
	f.Fuzz(func(t *testing.T, log string) {
		r := replayText(t, `exempt: [{paths: [/healthz]}]
limits:
  - {name: caller, key: [ip], limit: 2/min, try: 1/s}
  - {name: agent, match: {paths: ["/**"], not: {methods: [PUT]}}, key: ["header:User-Agent", route], limit: 2/h algorithm=sliding_log, on_missing: deny}
  - {name: all, key: [all], limit: 3/s algorithm=leaky_bucket burst=1, mode: shadow}
`, log)
		if r.Allowed+r.Denied != r.Requests || r.Lines.Requests != r.Requests || r.SkippedLines != r.Lines.Bad+r.Lines.Aside {
			t.Errorf("%+v", r)
		}
		var charted int64
		for _, b := range r.series.buckets {
			charted += b.allowed + b.denied
		}
		if charted != r.Requests {
			t.Errorf("%d of %d requests in the chart", charted, r.Requests)
		}
		for _, rule := range r.Rules {
			refused := int64(0)
			for _, c := range rule.Top {
				refused += c.Denied
			}
			if rule.Denied > rule.Matched || rule.Matched > r.Requests || rule.CallersDenied > rule.Callers || refused > rule.Denied || rule.CallersDenied <= topCallers && refused != rule.Denied {
				t.Errorf("%+v", rule)
			}
		}
		var page strings.Builder
		if err := r.WriteHTML(&page, "weir.yaml"); err != nil {
			t.Error(err)
		}
	})
}
