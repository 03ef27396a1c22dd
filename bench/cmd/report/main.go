// Command report runs every comparison and writes docs/benchmarks.md with its
// chart. It exits with 1 if a promise is not kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirhq/weir/bench/report"
)

// plan is how thorough a run is.
type plan struct {
	docs     string
	only     string
	rounds   int           // of the comparison in memory
	trips    int           // rounds of the comparison on Redis
	duration time.Duration // of one measurement on Redis
	keys     int           // of the measurement of bytes a key
}

func main() {
	var p plan
	flag.StringVar(&p.docs, "docs", "../docs", "folder that benchmarks.md and benchmarks.svg are written to")
	flag.StringVar(&p.only, "only", "", "memory or redis: print that part, write nothing")
	flag.IntVar(&p.rounds, "rounds", 400, "rounds of the comparison in memory")
	flag.IntVar(&p.trips, "trips", 5, "rounds of the comparison on Redis")
	flag.DurationVar(&p.duration, "duration", 2*time.Second, "length of one measurement on Redis")
	flag.IntVar(&p.keys, "keys", 10_000_000, "keys of the measurement of bytes a key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, p); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// page is what is found, as it goes into the file.
type page struct {
	text   strings.Builder
	aims   []report.Aim
	panels []report.Panel
}

func run(ctx context.Context, p plan) error {
	var out page
	if p.only != "redis" {
		if err := out.memory(p); err != nil {
			return err
		}
	}
	if p.only != "memory" {
		if err := out.redis(ctx, p); err != nil {
			return err
		}
	}
	if p.only != "" {
		fmt.Print(out.text.String() + "\n" + report.Aims(out.aims))
	} else if err := out.write(p); err != nil {
		return err
	}
	if missed := report.Missed(out.aims); missed != "" {
		return fmt.Errorf("promises that are not kept:\n%s", missed)
	}
	return nil
}

const head = `# Benchmarks

Written by ` + "`make bench`" + `, which anybody can run; nothing here was typed in. All figures
are medians of rounds in which every limiter had its turn, so what else the
machine had to do falls on all alike. Compare ratios, not figures of two runs.

`

const commands = `## To run it

` + "```sh" + `
make bench                                        # everything, about ten minutes
go run -C bench ./cmd/report -only memory         # one part, printed
go test -C bench ./...                            # the short form that CI runs: counts, and ratios with a wide margin
go test -C bench -bench . -cpu 1,2 ./memory       # for profiles and benchstat
` + "```" + `
`

func (o *page) write(p plan) error {
	rounds := fmt.Sprintf("- rounds: %d in memory, %d on Redis of %s each\n", p.rounds, p.trips, p.duration)
	text := head + report.Machine() + rounds + "\n![Chart of the figures below](benchmarks.svg)\n\n## Promises\n\n" +
		report.Aims(o.aims) + "\n" + o.text.String() + "\n" + commands
	if err := os.WriteFile(filepath.Join(p.docs, "benchmarks.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.docs, "benchmarks.svg"), []byte(report.Chart(o.panels)), 0o644)
}
