package replay

import (
	"cmp"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/sim/accesslog"
)

// megabytes is how long the logs of the tests below are; `make replay-memory`
// and `make replay-bench` ask for long ones.
func megabytes(t *testing.T, variable string, short int64) int64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return short << 20
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q", variable, text)
	}
	return n << 20
}

// TestMemory: what a replay takes does not grow with the length of the log. The
// log is made while it is read.
func TestMemory(t *testing.T) {
	size := megabytes(t, "WEIR_REPLAY_MEMORY", 20)
	taken := func(size int64) (most uint64, lines int64) {
		from, to := io.Pipe()
		go func() {
			_, err := writeSynthetic(to, size)
			to.CloseWithError(err)
		}()
		run, err := New(tenRules(t), nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		files, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: from})
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		calls := 0
		if err := run.Read(t.Context(), files, func() {
			if calls++; calls%8 == 0 {
				most = max(most, inUse())
			}
		}); err != nil {
			t.Fatal(err)
		}
		return most, files.Summary().Requests
	}
	first, lines := taken(size / 4)
	last, more := taken(size)
	t.Logf("%d MB for %d lines, %d MB for %d", first>>20, lines, last>>20, more)
	// The generator's 20,000 callers are nearly all seen early on.
	if more < 3*lines || last > first+first/4+(16<<20) {
		t.Errorf("memory grows from %d to %d MB", first>>20, last>>20)
	}
}

// inUse returns the memory that the process has from the system.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// TestSpeed reads a log under ten rules, by turns with `cut -d' ' -f1 | wc -l`
// over the same file. The long form wants a quarter of its lines a second, as
// the median of the rounds; the short one, on a machine that does other things,
// only says what it found.
func TestSpeed(t *testing.T) {
	rounds, long := 1, os.Getenv("WEIR_REPLAY_BENCH") != ""
	name, lines := syntheticLog(t, megabytes(t, "WEIR_REPLAY_BENCH", 4))
	if file := os.Getenv("WEIR_REPLAY_LOG"); file != "" {
		name, lines = file, 0
	}
	if long {
		rounds = 9
	}
	p := tenRules(t)
	var shares []float64
	for range rounds {
		began := time.Now()
		out, err := exec.Command("sh", "-c", `cut -d' ' -f1 "$0" | wc -l`, name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cut := time.Since(began)
		counted, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		report := readLog(t, p, accesslog.Options{}, name)
		took := time.Since(began)
		if got := int(report.Requests + report.SkippedLines); got != counted || lines > 0 && got != lines {
			t.Errorf("%d lines read, wc counts %d", got, counted)
		}
		shares = append(shares, cut.Seconds()/took.Seconds())
		t.Logf("%d lines: cut %v, replay %v (%.0f lines a second): %.2f", counted, cut, took, float64(counted)/took.Seconds(), cmp.Or(shares[len(shares)-1], 0))
	}
	slices.Sort(shares)
	median := shares[len(shares)/2]
	t.Logf("replay reads %.2f of what cut does", median)
	if long && median < 0.25 {
		t.Errorf("less than a quarter")
	}
}
