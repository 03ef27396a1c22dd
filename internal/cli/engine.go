package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/observe/logs"
	"github.com/weirhq/weir/policy/policyfile"
)

// engine is what serve and proxy have in common: a policy, a store, a log.
type engine struct {
	file    string
	store   string
	prefix  string
	logs    string
	verbose bool
	shadow  bool
	notice  time.Duration
	grace   time.Duration
}

func (e *engine) flags(f *pflag.FlagSet) {
	f.StringVarP(&e.file, "config", "c", "", "the policy file; without one there are no rules")
	f.StringVar(&e.store, "store", "", "where balances live: memory or a URL such as redis://127.0.0.1:6379/0")
	f.StringVar(&e.prefix, "key-prefix", "", "separates deployments that share a Redis")
	f.StringVar(&e.logs, "log-format", "text", "text or json")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "log more")
	f.BoolVar(&e.shadow, "shadow", false, "try the policy: its rules count and refuse nobody; weir mode enforce --rule R still does")
	f.DurationVar(&e.notice, "drain-notice", daemon.DefaultNotice, "at the end, how long to go on serving while sending clients away")
	f.DurationVar(&e.grace, "drain-grace", daemon.DefaultGrace, "at the end, how long requests in flight may take")
}

// config reads the policy file and returns what to run, without doors.
func (e *engine) config(stderr io.Writer) (c daemon.Config, err error) {
	log, err := e.logger(stderr)
	if err != nil {
		return c, err
	}
	if e.notice < 0 || e.grace < 0 {
		return c, misuse("0s leaves no time", "--drain-notice and --drain-grace must not be negative")
	}
	c = daemon.Config{Log: log, Watch: e.file != "", Shadow: e.shadow, Notice: e.notice, Grace: e.grace}
	if e.file != "" {
		if c.File, err = policyfile.Load(e.file); err != nil {
			return c, misuse("", "%w", err)
		}
		if c.Store, err = daemon.StoreOf(c.File); err != nil {
			return c, misuse("", "%s: %w", e.file, err)
		}
	}
	if e.store != "" {
		c.Store.URL = e.store
	}
	if e.prefix != "" {
		c.Store.Prefix = e.prefix
	}
	return c, nil
}

func (e *engine) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelInfo
	if e.verbose {
		level = slog.LevelDebug
	}
	switch e.logs {
	case "text", "json":
		return logs.New(w, e.logs == "json", level), nil
	}
	return nil, misuse("", "--log-format %q is unknown; use text or json", e.logs)
}

// run runs the daemon until ctx ends; SIGHUP reads the policy again.
func (e *engine) run(ctx context.Context, c daemon.Config) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	c.Reload = reload
	// What the standard library says by a log of its own, such as a transport of an
	// upstream, becomes lines like all others. It may hold what the upstream sent,
	// so only -v shows it.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	slog.SetDefault(c.Log)
	return described(daemon.Run(ctx, c))
}

// described adds to err what the command line knows of it.
func described(err error) error {
	var listen *daemon.ListenError
	var store *daemon.StoreError
	var refused *redisconn.RefusedError
	var policy *daemon.PolicyError
	var faults policyfile.Errors
	switch {
	case errors.As(err, &faults), errors.As(err, &policy):
		return misuse("", "%w", err)
	case errors.As(err, &listen):
		return misuse(listen.Hint, "%w", err)
	case errors.As(err, &refused) && refused.Database:
		return misuse("the number behind the last / of the URL is the database; a server has as many as its setting databases says, a cluster one", "%w", err)
	case errors.As(err, &refused):
		return misuse("give the user and the password in the URL, redis://USER:PASSWORD@HOST:PORT, or as store.username and store.password_file in the policy file", "%w", err)
	case errors.As(err, &store):
		return misuse("a store is memory or a URL such as redis://127.0.0.1:6379/0", "%w", err)
	}
	return err
}
