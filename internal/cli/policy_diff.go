package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/accesslog"
	"github.com/weirhq/weir/sim/replay"
)

func newPolicyDiff() *cobra.Command {
	var logs []string
	var o accesslog.Options
	var maxRefused, maxAdmitted int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW --traffic LOG...",
		Short: "Say which callers a changed policy refuses or admits anew, on recorded traffic",
		Long: `Run access logs through two policies and say which callers are refused under NEW
and were not under OLD, and the reverse. Exit 1 if there are more of them than
--max-refused and --max-admitted allow, which is none unless given: a check for
continuous integration.`,
		Example: `  weir policy diff main.yaml weir.yaml --traffic access.log.gz
  weir policy diff main.yaml weir.yaml --traffic access.log --max-refused 5 --max-admitted -1`,
		Args: arguments("OLD", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(logs) == 0 {
				return misuse("usage: "+cmd.UseLine(), "--traffic LOG is missing")
			}
			if maxRefused < -1 || maxAdmitted < -1 {
				return misuse("", "--max-refused and --max-admitted are numbers of callers; -1 is any number")
			}
			var runs [2]*replay.Run
			clients := replay.Options{Clients: true}
			var files [2]*policyfile.File
			for i, name := range args {
				f, err := policyfile.Load(name)
				if err != nil {
					return misuse("", "%w", err)
				}
				files[i] = f
				// Callers are told apart alike on both sides, by the longer prefixes.
				clients.ClientIPv4Prefix = max(clients.ClientIPv4Prefix, f.ClientIP.IPv4Prefix)
				clients.ClientIPv6Prefix = max(clients.ClientIPv6Prefix, f.ClientIP.IPv6Prefix)
			}
			for i, f := range files {
				run, err := openRun(f, clients)
				if err != nil {
					return err
				}
				defer func() { _ = run.Close() }() // nothing of it is left to lose
				runs[i] = run
				o.Wants |= run.Wants()
			}
			lines, err := readLogs(cmd, logs, o, func(ctx context.Context, f *accesslog.Files, after func()) error {
				return replay.ReadInto(ctx, f, after, runs[:]...)
			})
			if err != nil {
				return err
			}
			wrong := tellLines(cmd.ErrOrStderr(), logs, &lines)
			d := replay.Compare(runs[0], runs[1])
			d.SkippedLines = lines.Bad + lines.Aside
			if wrong == nil && d.Requests == 0 {
				return misuse("", "--traffic %s: there is no request in it, so nothing is compared", strings.Join(logs, ", "))
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), d)
			} else {
				err = printDiff(cmd.OutOrStdout(), args, d)
			}
			if err = errors.Join(err, wrong); err != nil {
				return err
			}
			if over(d.NewlyRefused, maxRefused) || over(d.NewlyAdmitted, maxAdmitted) {
				return errFailed
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&logs, "traffic", nil, "access logs; may be repeated; - is standard input")
	f.IntVar(&maxRefused, "max-refused", 0, "how many callers may be newly refused; -1 for any number")
	f.IntVar(&maxAdmitted, "max-admitted", 0, "how many callers may be newly admitted; -1 for any number")
	logFlags(cmd, &o)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func over(callers []replay.Caller, most int) bool { return most >= 0 && len(callers) > most }

// shownCallers is how many callers a list for people names.
const shownCallers = 20

func printDiff(w io.Writer, files []string, d *replay.Diff) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("POLICY\tREQUESTS\tREFUSED\t\tCALLERS REFUSED")
	for i, s := range []replay.Side{d.Old, d.New} {
		line("%s\t%d\t%d\t%s\t%d", files[i], d.Requests, s.Denied, percent(s.Denied, d.Requests), s.CallersDenied)
	}
	list := func(what, of string, callers []replay.Caller) {
		line("")
		line("%d callers newly %s", len(callers), what)
		for _, c := range callers[:min(len(callers), shownCallers)] {
			line("  %s\t%d requests refused by %s", c.Key, c.Denied, of)
		}
		if more := len(callers) - shownCallers; more > 0 {
			line("  and %d more", more)
		}
	}
	list("refused", files[1], d.NewlyRefused)
	list("admitted", files[0], d.NewlyAdmitted)
	return t.Flush()
}
