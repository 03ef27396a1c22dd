package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/observe/logs"
	"github.com/weirhq/weir/observe/stream"
)

// source hands out events until they are acknowledged.
type source interface {
	// next returns what comes next; nothing means that there is nothing now.
	next(ctx context.Context) (batch, error)
	// acknowledge says that a batch is kept for good.
	acknowledge(ctx context.Context, b batch) error
	close() error
}

// batch is some events and what the source wants to know them by.
type batch struct {
	events   []stream.Event
	entries  []string // of a stream: IDs of entries, those that are no events included
	position string   // of files: where the batch ends
	bad      int      // entries or lines that are no events
}

func (b *batch) empty() bool { return len(b.entries) == 0 && b.position == "" }

// target keeps events.
type target interface {
	// position returns where the source of that name was when the last batch was
	// kept, or "".
	position(ctx context.Context, source string) (string, error)
	// keep keeps the events that it does not have, and with them the source's
	// position if there is one, for good or not at all. It returns how many were
	// new.
	keep(ctx context.Context, source string, b batch) (added int64, err error)
	close() error
}

const (
	batchEvents = 500
	idlePause   = 500 * time.Millisecond
	errorPause  = 2 * time.Second
	onceTries   = 5 // failures in a row after which --once gives up
)

type consume struct {
	store, key, group, name, to string
	claimAfter                  time.Duration
	once                        bool
	log                         *slog.Logger
}

func newConsume() *cobra.Command {
	c := &consume{}
	cmd := &cobra.Command{
		Use:   "consume --store S --to sqlite:FILE|postgres://…|jsonl:FILE",
		Short: "Take events into a database",
		Long: `Take events from a Redis stream (--store redis://…) or from files (--store
file:NAME, as in events: {file: NAME}) into a database. An event is acknowledged
when it is kept, and kept once, by its id: the command may be killed at any time
and started again, and several may run on one stream with a --name each.`,
		Example: `  weir-events consume --store redis://127.0.0.1:6379/0 --to sqlite:events.db
  weir-events consume --store file:events.jsonl --to postgres://weir@db/weir --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log = logs.New(cmd.ErrOrStderr(), false, slog.LevelInfo)
			return c.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.store, "store", os.Getenv("WEIR_STORE"), "where events are: a Redis URL, or file:NAME")
	f.StringVar(&c.to, "to", os.Getenv("WEIR_TO"), "where they go: sqlite:FILE, postgres://… or jsonl:FILE")
	f.StringVar(&c.key, "stream", "weir:events", "the stream's key")
	f.StringVar(&c.group, "group", "weir-events", "the consumer group; each takes every event")
	f.StringVar(&c.name, "name", "", "this consumer's name in the group; the host's if not given")
	f.DurationVar(&c.claimAfter, "claim-after", time.Minute, "take over what another consumer has not acknowledged for so long")
	f.BoolVar(&c.once, "once", false, "stop when there is nothing left")
	return cmd
}

func (c *consume) run(ctx context.Context, out io.Writer) (err error) {
	to, err := openTarget(ctx, c.to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	from, name, err := c.open(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	kept, err := c.all(ctx, from, to, name)
	_, printed := fmt.Fprintf(out, "%d events kept\n", kept)
	return errors.Join(err, printed)
}

// open returns the source, and the name under which its position is kept.
func (c *consume) open(ctx context.Context, to target) (source, string, error) {
	if path, ok := strings.CutPrefix(c.store, "file:"); ok && path != "" {
		position, err := to.position(ctx, c.store)
		if err != nil {
			return nil, "", err
		}
		from, err := openFiles(path, position, c.log)
		return from, c.store, err
	}
	if c.store == "" || c.store == "memory" {
		return nil, "", misuse("--store is missing: a Redis URL, or file:NAME")
	}
	host, err := os.Hostname()
	if err != nil {
		host = "weir-events"
	}
	from, err := openStream(ctx, c.store, streamOptions{c.key, c.group, cmp.Or(c.name, host), c.claimAfter, c.once})
	return from, "", err
}

// all keeps batch after batch, until ctx ends or, with once, nothing is left.
func (c *consume) all(ctx context.Context, from source, to target, name string) (kept int64, err error) {
	failures := 0
	for ctx.Err() == nil {
		b, n, err := c.one(ctx, from, to, name)
		kept += n
		switch {
		case ctx.Err() != nil:
			return kept, nil
		case err != nil:
			if failures++; c.once && failures == onceTries {
				return kept, err
			}
			c.log.Warn("events could not be taken; trying again", "error", err)
			wait(ctx, errorPause)
			continue
		case b.empty() && c.once:
			return kept, nil
		case b.empty():
			wait(ctx, idlePause)
		}
		failures = 0
		if b.bad > 0 {
			c.log.Warn("what is no event was passed over", "count", b.bad)
		}
	}
	return kept, nil
}

// one keeps the next batch and acknowledges it.
func (c *consume) one(ctx context.Context, from source, to target, name string) (b batch, kept int64, err error) {
	if b, err = from.next(ctx); err != nil || b.empty() {
		return b, 0, err
	}
	if kept, err = to.keep(ctx, name, b); err != nil {
		return b, 0, err
	}
	return b, kept, from.acknowledge(ctx, b)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
