package replay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/sim/accesslog"
)

// sharedLogs are real logs that are not part of the project.
const sharedLogs = "../../../shared/logs"

// row is a row of the index's table of what limits refuse.
type row struct {
	file, limit      string
	refused, clients int64
}

// tableOf reads the table.
func tableOf(t *testing.T) (rows []row) {
	index, err := os.ReadFile(filepath.Join(sharedLogs, "INDEX.md"))
	if err != nil {
		t.Logf("not held against real logs, which are not here: %v", err)
		return nil
	}
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(line, "|")
		var r row
		if len(cells) != 6 {
			continue
		}
		if _, err := fmt.Sscan(cells[3]+" "+cells[4], &r.refused, &r.clients); err == nil {
			r.file, r.limit = strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
			rows = append(rows, r)
		}
	}
	if len(rows) < 40 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	return rows
}

// TestSharedTable: every row of the table, by one policy with all of its limits
// in force at once, since a rule's numbers are its own; and the same on copies
// with lines shuffled and clients renamed.
func TestSharedTable(t *testing.T) {
	byFile := map[string][]row{}
	for _, r := range tableOf(t) {
		byFile[r.file] = append(byFile[r.file], r)
	}
	for file, rows := range byFile {
		var limits []string
		for _, r := range rows {
			limits = append(limits, r.limit)
		}
		p := perClient(t, limits...)
		data, err := os.ReadFile(filepath.Join(sharedLogs, file))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"as it is": string(data), "shuffled": shuffled(string(data)), "renamed": renamed(string(data))} {
			report := readLog(t, p, accesslog.Options{}, written(t, text))
			for i, r := range rows {
				if got := report.Rules[i]; got.Denied != r.refused || got.CallersDenied != r.clients || got.Matched != report.Requests {
					t.Errorf("%s, %s, %s: %d refused of %d callers, the table has %d of %d", file, name, r.limit, got.Denied, got.CallersDenied, r.refused, r.clients)
				}
			}
			if report.Allowed+report.Denied != report.Requests {
				t.Errorf("%s, %s: %+v", file, name, report)
			}
		}
	}
}

func perClient(t *testing.T, limits ...string) *policy.Policy {
	t.Helper()
	ip, err := identity.ParsePart("ip")
	if err != nil {
		t.Fatal(err)
	}
	var rules []policy.Rule
	for i, text := range limits {
		l, err := weir.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, policy.Rule{Name: fmt.Sprintf("r%d", i), Key: []identity.Part{ip}, Limit: l})
	}
	p, err := policy.Compile(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// shuffled mixes the lines. A line in W3C format would be lost before its header;
// there is none in the table.
func shuffled(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return strings.Join(lines, "")
}

var anAddress = regexp.MustCompile(`\b(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\b`)

// renamed gives every IPv4 client another address, one to one: IPv6 by turns.
func renamed(text string) string {
	seen := map[string]string{}
	return anAddress.ReplaceAllStringFunc(text, func(ip string) string {
		if seen[ip] == "" {
			seen[ip] = fmt.Sprintf("10.9.%d.%d", len(seen)/250, len(seen)%250)
			if len(seen)%2 == 0 && !strings.Contains(text, `"ClientAddr"`) && !strings.Contains(text, "haproxy") {
				seen[ip] = fmt.Sprintf("2001:db8:%x::7", len(seen))
			}
		}
		return seen[ip]
	})
}
