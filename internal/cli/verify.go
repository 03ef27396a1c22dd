package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/redisconn"
	"github.com/weirhq/weir/redisstore"
	"github.com/weirhq/weir/verify"
)

func newVerify() *cobra.Command {
	var vectors, store string
	var asJSON bool
	var o verify.Options
	cmd := &cobra.Command{
		Use:   "verify [--vectors FILE] [--store S]",
		Short: "Check that a store decides exactly as promised",
		Long: `Check that a store decides exactly as promised: each vector from empty, on
virtual time, to the microsecond. On Redis it is the very script of production
that decides, but for where its time comes from; keys go under a prefix of their
own and are removed afterwards.

Without --vectors the built-in vectors are run, then random histories, each of
which checks one promise of the contract.`,
		Example: `  weir verify
  weir verify --vectors single.jsonl --store redis://127.0.0.1:6379/0`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVerify(cmd.Context(), cmd.OutOrStdout(), vectors, store, o, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&vectors, "vectors", "", "file of vectors, one JSON object a line")
	f.StringVar(&store, "store", "memory", "the store to check: memory or a URL such as redis://127.0.0.1:6379/0")
	f.IntVar(&o.Histories, "histories", 2000, "how many random histories")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of the histories; 0 draws one")
	f.IntVar(&o.First, "first", 0, "number of the first history; with --seed and --histories 1 it repeats one")
	f.StringSliceVar(&o.Only, "only", nil, "names of promises to check, and no vectors")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func runVerify(ctx context.Context, w io.Writer, vectors, store string, o verify.Options, asJSON bool) (err error) {
	open := func(clock *verify.Clock) (weir.Store, error) {
		return weir.NewMemory(weir.MemoryOptions{Now: clock.Now}), nil
	}
	if store != "memory" {
		lab, err := openLab(store)
		if err != nil {
			return described(&daemon.StoreError{Err: err})
		}
		defer func() { err = errors.Join(err, lab.close()) }()
		open = lab.open
	}
	var report verify.Report
	switch {
	case vectors != "":
		cases, fault := readVectors(vectors)
		if fault != nil {
			return misuse("", "--vectors: %w", fault)
		}
		report, err = verify.Vectors(ctx, cases, open)
	case o.Histories < 1:
		return misuse("", "--histories must be at least 1")
	case o.First < 0 || o.First > math.MaxInt-o.Histories:
		return misuse("", "--first must lie between 0 and what leaves room for --histories")
	default:
		report, err = verify.Run(ctx, open, o)
	}
	var unknown *verify.NameError
	if errors.As(err, &unknown) {
		return misuse("", "--only: %w", err)
	}
	if err != nil {
		return err
	}
	if err := printReport(w, &report, asJSON); err != nil {
		return err
	}
	if report.Failed > 0 {
		return errFailed
	}
	return nil
}

func readVectors(file string) ([]verify.Case, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	cases, err := verify.ReadCases(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("%s holds no cases", file)
	}
	return cases, nil
}

func printReport(w io.Writer, r *verify.Report, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(w, "FAIL %s, step %d: %s should be %v and is %v\n", f.ID, f.Step, f.Field, f.Want, f.Got); err != nil {
			return err
		}
	}
	seed := ""
	if r.Seed != 0 {
		seed = fmt.Sprintf(" (seed %d)", r.Seed)
	}
	_, err := fmt.Fprintf(w, "%d passed, %d failed%s\n", r.Passed, r.Failed, seed)
	return err
}

const labTimeout = 30 * time.Second

// lab is a Redis on which every store starts empty, under a prefix of its own,
// and reads the time it is given.
type lab struct {
	url, prefix string
	conn        *redisconn.Conn
	opened      int
}

func openLab(url string) (*lab, error) {
	conn, err := redisconn.Open(url, redisconn.Settings{})
	if err != nil {
		return nil, err
	}
	return &lab{url: url, prefix: "weir-verify-" + rand.Text(), conn: conn}, nil
}

func (l *lab) open(clock *verify.Clock) (weir.Store, error) {
	l.opened++
	return redisstore.Open(l.url, redisstore.Options{
		Prefix: l.prefix + "-" + strconv.Itoa(l.opened) + "-",
		Clock:  clock.Now,
		// What is slow here is not wrong.
		Timeout: labTimeout,
	})
}

// close removes what was stored.
func (l *lab) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), labTimeout)
	defer cancel()
	client, err := l.conn.Client()
	if err == nil {
		for _, node := range client.Nodes() {
			err = errors.Join(err, removeAll(ctx, node, l.prefix+"*"))
		}
	}
	return errors.Join(err, l.conn.Close())
}

func removeAll(ctx context.Context, node rueidis.Client, pattern string) error {
	for cursor := uint64(0); ; {
		page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for _, key := range page.Elements {
			if err := node.Do(ctx, node.B().Unlink().Key(key).Build()).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
