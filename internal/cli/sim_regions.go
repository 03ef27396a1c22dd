package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/sim/regional"
)

// regionFlags are the flags of weir sim that show regions.
type regionFlags struct {
	regions                  int
	lag, interval, partition time.Duration
}

func (r *regionFlags) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&r.regions, "regions", 0, "show one limit over so many regions instead of a preset, under every scope")
	f.DurationVar(&r.lag, "lag", 120*time.Millisecond, "with --regions: how long a message takes one way")
	f.DurationVar(&r.interval, "interval", 200*time.Millisecond, "with --regions: how often regions tell each other")
	f.DurationVar(&r.partition, "partition", 0, "with --regions: how long each is cut off from every other, in the middle")
}

// run shows what every scope makes of a limit.
func (r *regionFlags) run(cmd *cobra.Command, limit string, asJSON bool) error {
	o := regional.Options{Regions: r.regions, Lag: r.lag, Interval: r.interval, Partition: r.partition}
	if limit != "" {
		l, err := weir.ParseLimit(limit)
		if err != nil {
			return misuse("", "--limit: %w", err)
		}
		o.Limit = l
	}
	for _, other := range []string{"preset", "svg"} {
		if cmd.Flags().Changed(other) {
			return misuse("", "--%s is for a preset and does not go with --regions", other)
		}
	}
	if r.regions < 2 {
		return misuse("", "--regions: must lie between 2 and 64")
	}
	if o.Lag == 0 || o.Interval == 0 { // where Fill would put the usual ones
		return misuse("", "--lag and --interval must lie between 5ms and 10s")
	}
	if err := o.Fill(); err != nil {
		return misuse("", "--%w", err)
	}
	report, err := regional.Run(cmd.Context(), o)
	if err != nil {
		return described(err)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return printRegions(cmd.OutOrStdout(), o, report)
}

func printRegions(w io.Writer, o regional.Options, r *regional.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %d regions, a lag of %s, told every %s", o.Limit, r.Regions, o.Lag, o.Interval)
	if o.Partition > 0 {
		fmt.Fprintf(&b, ", cut off from each other for %s", o.Partition)
	}
	fmt.Fprintf(&b, "\n%s of traffic, in every region half as much again as the limit\n\n", o.Length)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scope\tadmitted\tbeyond the limit\tat most\tall know after\t")
	for _, row := range r.Scope {
		known := (time.Duration(row.ConvergedMS) * time.Millisecond).String()
		switch {
		case row.ConvergedMS < 0:
			known = "never"
		case row.ConvergedMS == 0:
			known = "-"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t\n", row.Scope, row.Admitted, row.Overshoot, row.Bound, known)
	}
	_ = t.Flush() // a strings.Builder takes everything
	_, err := io.WriteString(w, b.String())
	return err
}
