package identity

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What Caddy serves for a spelling is what it is limited as. Caddy's answers were
// recorded, since building it takes minutes: `make caddy` asks a real one again.
func TestReadingsAreWhatCaddyServes(t *testing.T) {
	spelled := spellings(t)
	refused, compared := 0, 0
	for _, line := range lines(t, "testdata/caddy.txt") {
		raw, quoted, _ := strings.Cut(line, "\t")
		served, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if strings.HasPrefix(served, "refused") {
			refused++
			continue
		}
		compared++
		if readings := AppendReadings(nil, raw); !slices.Contains(readings, served) {
			t.Errorf("Caddy serves %q for %s, which is read as %q", served, raw, readings)
		}
		if i := slices.Index(spelled, raw); i >= 0 {
			spelled = slices.Delete(spelled, i, i+1)
			if served != "/api/login" {
				t.Errorf("Caddy serves %q for %s", served, raw)
			}
		}
	}
	if len(spelled) > 0 {
		t.Errorf("not recorded; `go test -C tools/caddy -update .` records: %q", spelled)
	}
	t.Logf("%d paths compared, %d refused by Caddy", compared, refused)
}
