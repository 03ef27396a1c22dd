package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/policy/policyfile"
	"github.com/weirhq/weir/sim/accesslog"
	"github.com/weirhq/weir/sim/replay"
)

func newReplay() *cobra.Command {
	var policy, page string
	var o accesslog.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay -c POLICY LOG...",
		Short: "Run access logs through a policy: who would have been refused, when, by which rule",
		Long: `Run access logs through a policy, on the clock of the logs, and say who would
have been refused, when and by which rule, and how close the others came. Nothing
is charged anywhere. Logs may be of different formats, compressed with gzip or
zstd, and several parts of one in any order; - is standard input.

A rule's refusals are what it would have refused alone, without the other rules;
so they may add up to more or less than what the policy as a whole refuses.`,
		Example: `  weir replay -c weir.yaml /var/log/nginx/access.log*
  zcat access.log.gz | weir replay -c weir.yaml --json -`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			if policy == "" {
				return misuse("weir suggest LOG writes a policy to begin with", "-c POLICY is missing")
			}
			run, file, err := loadRun(policy, replay.Options{})
			if err != nil {
				return err
			}
			if err := spares(page, append(names, policy)); err != nil {
				return errors.Join(err, run.Close())
			}
			o.Wants = run.Wants()
			lines, err := readLogs(cmd, names, o, run.Read)
			report := run.Report(lines)
			if err = errors.Join(err, run.Close()); err != nil {
				return err
			}
			wrong := tellLines(cmd.ErrOrStderr(), names, &lines)
			tellPolicy(cmd.ErrOrStderr(), file, report)
			if page != "" {
				if err := writePage(page, policy, report); err != nil {
					return err
				}
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = printReplay(cmd.OutOrStdout(), report)
			}
			if err != nil {
				return err
			}
			return wrong
		},
	}
	cmd.Flags().StringVarP(&policy, "config", "c", "", "the policy file")
	cmd.Flags().StringVar(&page, "html", "", "also write the report to this file, as a page with charts")
	logFlags(cmd, &o)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// tellPolicy says what of the policy the logs cannot show.
func tellPolicy(w io.Writer, f *policyfile.File, r *replay.Report) {
	for _, note := range replay.Unseen(f.Policy) {
		fmt.Fprintln(w, "weir: note:", note)
	}
	if r.Evicted > 0 {
		fmt.Fprintf(w, "weir: note: there were more callers than fit in memory; %d balances were forgotten early\n", r.Evicted)
	}
	if r.Refused > 0 {
		fmt.Fprintf(w, "weir: note: %d of the refused are bad requests by the policy, such as ambiguous paths\n", r.Refused)
	}
}

// spares returns an error if the page would be written over a file that is read.
func spares(page string, read []string) error {
	over, err := os.Stat(page)
	if page == "" || err != nil { // it is not there, or writePage says what is wrong
		return nil
	}
	for _, name := range read {
		if is, err := os.Stat(name); err == nil && os.SameFile(over, is) {
			return misuse("", "--html: %s is what is read, and would be written over", page)
		}
	}
	return nil
}

func writePage(name, policy string, r *replay.Report) error {
	f, err := os.Create(name)
	if err != nil {
		return misuse("", "--html: %w", err)
	}
	return errors.Join(r.WriteHTML(f, policy), f.Close())
}

func printReplay(w io.Writer, r *replay.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	line("%d requests, %d lines skipped (%d could not be read)", r.Requests, r.SkippedLines, r.Lines.Bad)
	if r.From != nil {
		line("from %s to %s", stamp(*r.From), stamp(*r.To))
	}
	line("%d admitted, %d refused (%s)", r.Allowed, r.Denied, percent(r.Denied, r.Requests))
	if r.Denied > 0 {
		line("worst minute %s: %d refused", stamp(r.Worst.Start), r.Worst.Denied)
	}
	if len(r.Rules) == 0 {
		line("the policy has no rules")
		return t.Flush()
	}
	line("")
	line("RULE\tLIMIT\tMATCHED\tREFUSED\t\tCALLERS\tREFUSED\tHEADROOM\tWORST MINUTE")
	for i := range r.Rules {
		rule := &r.Rules[i]
		name, headroom, worst := rule.Rule, "-", "-"
		if !rule.Decides {
			name += " *"
		}
		switch {
		case rule.Denied > 0:
			headroom, worst = "none", fmt.Sprintf("%s: %d", stamp(rule.Worst.Start), rule.Worst.Denied)
		case rule.Headroom >= 0:
			headroom = fmt.Sprintf("%d %%", rule.Headroom)
		}
		line("%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\t%s", name, rule.Limit, rule.Matched, rule.Denied, percent(rule.Denied, rule.Matched),
			rule.Callers, rule.CallersDenied, headroom, worst)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Denied == 0 {
			continue
		}
		line("")
		line("refused by %s, from %s to %s:", rule.Rule, stamp(rule.First), stamp(rule.Last))
		for _, c := range rule.Top {
			line("  %d\t%s", c.Denied, c.Key)
		}
		if more := rule.CallersDenied - int64(len(rule.Top)); more > 0 {
			line("  and %d more callers", more)
		}
	}
	for _, rule := range r.Rules {
		if !rule.Decides {
			line("")
			line("* does not decide: a shadow, or a try")
			break
		}
	}
	return t.Flush()
}

func stamp(t time.Time) string { return t.Format("2006-01-02 15:04:05") }

// percent spells n of all as a percentage that is not 0 unless n is.
func percent(n, all int64) string {
	switch {
	case all == 0:
		return "-"
	case n == 0:
		return "0 %"
	case 10_000*n < all:
		return "<0.01 %"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(all))
}
