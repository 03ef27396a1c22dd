package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/sim/accesslog"
	"github.com/weirhq/weir/sim/suggest"
)

func newSuggest() *cobra.Command {
	var o accesslog.Options
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "suggest LOG...",
		Short: "Find limits in access logs, by how many callers they would touch",
		Long: `Count what callers use in access logs, per caller and per route, in several
periods, and print a policy to begin with. What was found stands in its comments:
percentiles, and the limits that would touch 0.1 %, 1 % and 5 % of callers, each
with the share of requests it would refuse. weir replay finds the same.`,
		Example: `  weir suggest /var/log/nginx/access.log* -o weir.yaml
  weir replay -c weir.yaml /var/log/nginx/access.log*`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			study := suggest.NewStudy()
			lines, err := readLogs(cmd, names, o, func(ctx context.Context, f *accesslog.Files, after func()) error {
				return studyAll(ctx, f, after, study)
			})
			if err != nil {
				return err
			}
			wrong := tellLines(cmd.ErrOrStderr(), names, &lines)
			report := study.Report()
			report.SkippedLines = lines.Bad + lines.Aside
			if out != "" {
				if err := writeNew(out, report.Policy()); err != nil {
					return err
				}
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				_, err = cmd.OutOrStdout().Write(report.Policy())
			}
			return errors.Join(err, wrong)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "also write the policy to this file, which must not be there yet")
	logFlags(cmd, &o)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func studyAll(ctx context.Context, f *accesslog.Files, after func(), s *suggest.Study) error {
	for {
		given, err := f.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range given.Records {
			s.Add(r)
		}
		given.Done()
		after()
	}
}

// writeNew writes a file that is not there yet: a policy is dear to who wrote it.
func writeNew(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return misuse("", "--output: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil { // a full disk: the next try has to find its name free
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
