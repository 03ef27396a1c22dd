package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/sim"
)

func newSim() *cobra.Command {
	var preset, limit, picture string
	var asJSON bool
	var across regionFlags
	cmd := &cobra.Command{
		Use:   "sim [--preset P | --regions N] [--limit L] [--svg FILE]",
		Short: "See what each algorithm does with a given traffic",
		Long: `See what each algorithm does with a given traffic. The real engine decides, on
a virtual clock; nothing is kept anywhere. The limit's amount, period and burst
count: every algorithm is shown, whichever it names.

` + presetList(),
		Example: `  weir sim
  weir sim --preset edge --limit "100/min burst=20" --svg edge.svg
  weir sim --regions 3 --lag 120ms --partition 30s`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("regions") {
				return across.run(cmd, limit, asJSON)
			}
			for _, name := range []string{"lag", "interval", "partition"} {
				if cmd.Flags().Changed(name) {
					return misuse("", "--%s goes with --regions", name)
				}
			}
			p := sim.Find(preset)
			if p == nil {
				return misuse("the presets are "+strings.Join(presetNames(), ", "), "there is no preset %q", preset)
			}
			l := p.Limit
			if limit != "" {
				var err error
				if l, err = sim.ParseLimit(limit); err != nil {
					return misuse("", "--limit: %w", err)
				}
			}
			report, err := sim.Run(cmd.Context(), p, l)
			if err != nil {
				return described(err)
			}
			if picture != "" {
				if err := os.WriteFile(picture, []byte(sim.SVG(p, l, report)), 0o644); err != nil {
					return misuse("", "--svg: %w", err)
				}
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), report)
			}
			return printSim(cmd.OutOrStdout(), p, l, report)
		},
	}
	f := cmd.Flags()
	f.StringVar(&preset, "preset", "burst", "the traffic: "+strings.Join(presetNames(), ", "))
	f.StringVar(&limit, "limit", "", "the limit, such as \"100/min burst=20\"; the preset's own if empty")
	f.StringVar(&picture, "svg", "", "draw it into a file as well")
	across.bind(cmd)
	instead(f, "regions", "preset")
	instead(f, "regions", "svg")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func presetNames() (names []string) {
	for _, p := range sim.Presets {
		names = append(names, p.Name)
	}
	return names
}

func presetList() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, p := range sim.Presets {
		fmt.Fprintf(t, "  %s\t%s\n", p.Name, p.About)
	}
	_ = t.Flush() // a strings.Builder takes everything
	return strings.TrimRight(b.String(), "\n")
}

// chartWidth is how many columns a timeline takes, so that all of a line fits in
// 80.
const chartWidth = 60

// printSim draws a line of bars for each row, all on one scale.
func printSim(w io.Writer, p *sim.Preset, limit weir.Limit, r *sim.Report) error {
	rows := append(append([]sim.Row(nil), r.Algorithms...), r.Beside...)
	most := 1
	columns := make([][]sim.Point, len(rows))
	for i := range rows {
		columns[i] = gathered(rows[i].Timeline, chartWidth)
		for _, c := range columns[i] {
			most = max(most, c.Offered)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, against %s\n%s\n", p.Name, sim.Spell(limit), p.About)
	for i := range rows {
		row := &rows[i]
		fmt.Fprintf(&b, "\n%s: %d of %d admitted, at most %d in any %s, %d in 2s",
			row.Name(), row.Admitted, row.Offered, row.WorstWindow, sim.Span(limit.Period()), row.Worst2s)
		if row.Asked > 0 {
			fmt.Fprintf(&b, "; the store was asked %d times", row.Asked)
		}
		fmt.Fprintf(&b, "\n  offered   %s\n  admitted  %s\n",
			bars(columns[i], most, func(p sim.Point) int { return p.Offered }),
			bars(columns[i], most, func(p sim.Point) int { return p.Admitted }))
	}
	end := sim.Instant(p.Length)
	fmt.Fprintf(&b, "            %-*s%s\n", len(columns[0])-len(end), "0:00", end)
	_, err := io.WriteString(w, b.String())
	return err
}

// gathered makes at most n columns of a timeline.
func gathered(points []sim.Point, n int) []sim.Point {
	n = min(n, len(points))
	columns := make([]sim.Point, n)
	for i, p := range points {
		c := &columns[i*n/len(points)]
		c.Offered += p.Offered
		c.Admitted += p.Admitted
	}
	return columns
}

// bars draws numbers as blocks of eighths; what is more than nothing is seen.
func bars(columns []sim.Point, most int, value func(sim.Point) int) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, c := range columns {
		switch n := value(c); {
		case n == 0:
			b.WriteByte(' ')
		default:
			b.WriteRune(levels[(n*len(levels)-1)/most])
		}
	}
	return b.String()
}
