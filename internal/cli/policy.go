package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/policy/policyfile"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, test, compare, begin and describe policy files",
		Args:  cobra.ArbitraryArgs,
		RunE:  runNothing,
	}
	cmd.AddCommand(
		newPolicyCheck(),
		newPolicyTest(),
		newPolicyDiff(),
		newPolicyDocs(),
		newPrinter("init", "Print a commented sample policy that shows every setting", policyfile.Sample),
		newPrinter("schema", "Print the JSON Schema of the policy file, for editors", policyfile.Schema),
	)
	return cmd
}

// newPrinter returns a command that prints a text that is built in.
func newPrinter(name, short string, text func() []byte) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(text())
			return err
		},
	}
}

// checked is what a check found in one file.
type checked struct {
	File     string       `json:"file"`
	OK       bool         `json:"ok"`
	Errors   []placedNote `json:"errors"`
	Findings []placedNote `json:"findings"` // allowed, and most likely not meant
	Limits   []figures    `json:"limits"`
}

// placedNote is something to say about a place in a file.
type placedNote struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// figures is what one limit of a file promises and takes.
type figures struct {
	Rule             string `json:"rule"`
	Limit            string `json:"limit"`
	MostInPeriod     int64  `json:"most_in_period"`
	PeriodMS         int64  `json:"period_ms"`
	BytesPerCaller   int64  `json:"bytes_per_caller"`
	RedisBytesCaller int64  `json:"redis_bytes_per_caller"`
	Scope            string `json:"scope"`
	Overshoot        int64  `json:"overshoot"` // over all regions, and once more for each partition
}

func newPolicyCheck() *cobra.Command {
	var asJSON bool
	var old string
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with policy files, and what could be better",
		Long: `Say what is wrong with policy files. Of a file that is right, say what is most
likely not meant, and for every limit the most it admits in any span of its
period and what its balances take. With --was, also say which balances start
anew if FILE takes the place of that one.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("usage: "+cmd.UseLine(), "FILE is missing")
			}
			was, err := loadOld(old)
			if err != nil {
				return err
			}
			wrong := false
			for _, name := range args {
				c, text, err := checkPolicy(name, was)
				if err != nil { // the others are looked at all the same
					fmt.Fprintln(cmd.ErrOrStderr(), "weir: error:", err)
					wrong = true
					continue
				}
				if err := c.print(cmd, text, asJSON); err != nil {
					return err
				}
				wrong = wrong || !c.OK
			}
			if wrong {
				return errWrongPolicy
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&old, "was", "", "the policy file that is in force now")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func loadOld(name string) (*policyfile.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := policyfile.Load(name)
	if err != nil {
		return nil, misuse("", "--was: %w", err)
	}
	return f, nil
}

// checkPolicy looks at one file. The lines are about its limits, for people.
func checkPolicy(name string, was *policyfile.File) (c checked, lines []string, err error) {
	c = checked{File: name, Errors: []placedNote{}, Findings: []placedNote{}, Limits: []figures{}}
	f, err := policyfile.Load(name)
	var faults policyfile.Errors
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			c.Errors = append(c.Errors, placedNote{f.Line, f.Column, f.Problem})
		}
		return c, nil, nil
	case err != nil:
		return c, nil, misuse("", "%w", err)
	}
	c.OK = true
	findings := f.Check()
	if was != nil {
		findings = append(findings, f.Changes(was)...)
	}
	for _, f := range findings {
		c.Findings = append(c.Findings, placedNote{f.Line, f.Column, f.Text})
	}
	for _, l := range f.Policy.Figures() {
		c.Limits = append(c.Limits, figures{
			Rule: l.Rule.Name, Limit: l.Limit.String(), MostInPeriod: l.Most, PeriodMS: l.Period.Milliseconds(),
			BytesPerCaller: l.MemoryBytes, RedisBytesCaller: l.RedisBytes,
			Scope: l.Rule.Scope.String(), Overshoot: l.Overshoot,
		})
		lines = append(lines, l.String())
	}
	return c, lines, nil
}

// print prints faults on stderr and everything else on stdout.
func (c *checked) print(cmd *cobra.Command, lines []string, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), c)
	}
	var bad, good strings.Builder
	for _, n := range c.Errors {
		fmt.Fprintf(&bad, "weir: error: %s:%d:%d: %s\n", c.File, n.Line, n.Column, n.Message)
	}
	for _, n := range c.Findings {
		fmt.Fprintf(&bad, "weir: warning: %s:%d:%d: %s\n", c.File, n.Line, n.Column, n.Message)
	}
	if c.OK {
		fmt.Fprintf(&good, "%s: ok\n", c.File)
	}
	for _, line := range lines {
		fmt.Fprintf(&good, "  %s\n", line)
	}
	_, err := io.WriteString(cmd.ErrOrStderr(), bad.String())
	_, fault := io.WriteString(cmd.OutOrStdout(), good.String())
	return errors.Join(err, fault)
}

func newPolicyDocs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "docs FILE",
		Short: "Print the limits of a policy for the users of an API, as Markdown or JSON",
		Args:  arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := policyfile.Load(args[0])
			if err != nil {
				return misuse("", "%w", err)
			}
			docs := f.Docs()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), docs)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), docs.Markdown())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
