// Package cli is the command line: one file a command, each a thin layer over
// the packages that do the work.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir"
)

// The exit codes.
const (
	exitDone   = 0 // done, or admitted
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration
	exitDenied = 3
)

// failure is an error with what the command line adds to it.
type failure struct {
	code int
	err  error
	hint string
}

// Error returns the cause's text.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// misuse returns an error that exits with exitUsage. hint may be "".
func misuse(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), hint}
}

// errDenied exits with exitDenied and says nothing: the answer was printed.
var errDenied = errors.New("denied")

// errFailed exits with exitFailed and says nothing: the report was printed.
var errFailed = errors.New("failed")

// errWrongPolicy exits with exitUsage and says nothing: the faults were printed.
var errWrongPolicy = errors.New("wrong policy")

// Main runs the command line and returns the exit code. SIGINT and SIGTERM end
// what runs; a second one ends the process at once.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := helpWithNothing(root, args); err != nil {
		return exitCode(err, stderr)
	}
	return exitCode(root.ExecuteContext(ctx), stderr)
}

// helpWithNothing returns an error if args ask for help with a command that is
// not there. cobra would show the help of the last one it knows of the line, as
// if nothing were wrong.
func helpWithNothing(root *cobra.Command, args []string) error {
	asked := slices.Contains(args, "--help") || slices.Contains(args, "-h")
	if len(args) > 0 && args[0] == "help" {
		asked, args = true, args[1:]
	}
	if !asked {
		return nil
	}
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() {
		return err
	}
	for _, word := range rest {
		if !strings.HasPrefix(word, "-") {
			return runNothing(cmd, []string{word})
		}
	}
	return nil
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Weir limits how much callers may do",
		Long: `Weir limits how much callers may do: it answers, exactly and at once, whether
this caller may do this now, and if not, when.

  weir demo                             see it limit a small API, in one terminal
  weir serve -c weir.yaml               the daemon
  weir proxy --upstream URL --limit L   a limiting reverse proxy
  weir take KEY --limit 100/min         one decision

Every flag can be given in the environment, as WEIR_ and its name in capitals
(WEIR_STORE for --store). Flags beat the environment, which beats the file.`,
		Args:              cobra.ArbitraryArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), os.LookupEnv) },
		RunE:              runNothing,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		hint := fmt.Sprintf("%s --help lists the flags", cmd.CommandPath())
		if strings.Contains(err.Error(), "must be a duration") {
			hint = "times have the units ms, s, m and h; a day is 24h"
		}
		return misuse(hint, "%w", err)
	})
	root.AddCommand(newDemo(), newServe(), newProxy(), newTake(), newExplain(), newPolicy(), newVerify(), newBench(), newSim(), newReplay(), newSuggest(), newMigrate(), newMode(), newDrill(), newTop(), newWhy(), newReset(), newBlock(), newVersion())
	return root
}

// runNothing is what a command does that only has subcommands.
func runNothing(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := cmd.CommandPath() + " --help lists the commands"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return misuse(hint, "there is no command %q", cmd.CommandPath()+" "+args[0])
}

// arguments checks the number of arguments and names what is missing.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misuse("usage: "+cmd.UseLine(), "%s is missing", names[len(args)])
		case len(args) > len(names):
			return misuse("usage: "+cmd.UseLine(), "%q is one argument too many", args[len(names)])
		}
		return nil
	}
}

// instead says of flags that one is given instead of another. Where the command line
// gives one, the environment does not give another: flags beat it.
func instead(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations["instead"] = append(f.Annotations["instead"], names...)
	}
}

// fromEnvironment sets the flags that were not given from WEIR_ variables.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Changed || f.Name == "help" || slices.ContainsFunc(f.Annotations["instead"], func(other string) bool { return given[other] }) {
			return
		}
		name := "WEIR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		if fault := flags.Set(f.Name, value); fault != nil {
			err = misuse("", "in the environment, %s: %w", name, fault)
		}
	})
	return err
}

// exitCode says what err means to a person on w and to the shell.
func exitCode(err error, w io.Writer) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDenied):
		return exitDenied
	case errors.Is(err, errFailed):
		return exitFailed
	case errors.Is(err, errWrongPolicy):
		return exitUsage
	}
	code, hint := exitFailed, ""
	var f *failure
	var input *weir.InputError
	switch {
	case errors.As(err, &f):
		code, hint = f.code, f.hint
	case errors.As(err, &input):
		code = exitUsage
	}
	// Nothing is left to do if the terminal does not take an error.
	_, _ = fmt.Fprintln(w, "weir: error:", err)
	if hint != "" {
		_, _ = fmt.Fprintln(w, "weir: hint:", hint)
	}
	return code
}
