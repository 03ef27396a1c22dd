// Command weir-events takes the events that Weir writes, from a Redis stream or
// from files, into a database, and reports what is in it. It is a module of its
// own, so that nobody who builds weir builds databases.
//
//	stream ─ group ─┐                       ┌─▶ SQLite
//	                ├─▶ batch ─▶ commit ─▶ ack     PostgreSQL
//	files ─ place ──┘      (by id, once)    └─▶ lines of JSON
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes, as those of weir.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is wrong usage or configuration.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "weir-events",
		Short:         "Take Weir's events into a database, and report on them",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newConsume(), newReport())
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// Nothing is left to do if the terminal does not take an error.
	_, _ = fmt.Fprintln(os.Stderr, "weir-events: error:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}
