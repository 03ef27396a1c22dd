package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/policy/policyfile"
)

func newPolicy() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, begin and describe policy files",
		Args:  cobra.ArbitraryArgs,
		RunE:  runNothing,
	}
	cmd.AddCommand(
		newPolicyCheck(),
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
	File   string       `json:"file"`
	OK     bool         `json:"ok"`
	Errors []placedNote `json:"errors"`
}

// placedNote is something to say about a place in a file.
type placedNote struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

func newPolicyCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with policy files, and what could be better",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse("usage: "+cmd.UseLine(), "FILE is missing")
			}
			wrong := false
			for _, name := range args {
				ok, err := checkPolicy(cmd, name, asJSON)
				if err != nil {
					return err
				}
				wrong = wrong || !ok
			}
			if wrong {
				return errWrongPolicy
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checkPolicy reports on one file and returns whether it could be put in force.
func checkPolicy(cmd *cobra.Command, name string, asJSON bool) (bool, error) {
	_, err := policyfile.Load(name)
	var faults policyfile.Errors
	if err != nil && !errors.As(err, &faults) {
		return false, misuse("", "%w", err)
	}
	if asJSON {
		c := checked{File: name, OK: err == nil, Errors: []placedNote{}}
		for _, f := range faults {
			c.Errors = append(c.Errors, placedNote{f.Line, f.Column, f.Problem})
		}
		return c.OK, printJSON(cmd.OutOrStdout(), c)
	}
	for _, f := range faults {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "weir: error:", f); err != nil {
			return false, err
		}
	}
	if err != nil {
		return false, nil
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", name)
	return true, err
}
