package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/loadgen"
	"github.com/weirhq/weir/internal/redisconn"
)

// bench is one run of the command.
type bench struct {
	store, prefix string
	limit         string
	load          loadgen.Load
	zipf, hot     bool
	procs         int
	part          string // set in the processes that bench starts itself
	asJSON        bool
}

// mostClients bounds what a slip of the finger takes in memory.
const mostClients = 100_000

func newBench() *cobra.Command {
	b := &bench{}
	cmd := &cobra.Command{
		Use:   "bench --limit L [--store S] [--clients N] [--keys K] [--duration D] [--rate R] [--procs P] [--zipf|--hot]",
		Short: "Load a store with checks and report throughput, latency and cost",
		Long: `Load a store with checks and report throughput, latency and cost.

Without --rate the loop is closed: every client asks again as soon as it is
answered, which finds the most that can be had. With --rate checks start on
schedule, answered or not, and latency counts from when a check was meant to
start: a stall counts for all who would have come meanwhile.

"saturated" says which side could do no more: redis (its main thread), client
(this machine), or neither. Balances are kept under a prefix of their own and
expire by themselves; what does not is removed at the end.`,
		Example: `  weir bench --limit 100/min
  weir bench --limit 100/min --store redis://127.0.0.1:6379/0 --clients 512 --rate 50000 --json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return b.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.limit, "limit", "", "the limit of every key, such as 100/min")
	f.StringVar(&b.store, "store", "memory", "the store: memory or a URL such as redis://127.0.0.1:6379/0")
	f.StringVar(&b.prefix, "key-prefix", "", "what separates the balances from others; a new one for each run if empty")
	f.IntVar(&b.load.Clients, "clients", 64, "callers at a time, over all processes")
	f.IntVar(&b.load.Keys, "keys", 10_000, "how many keys they ask about")
	f.DurationVar(&b.load.Duration, "duration", 10*time.Second, "how long")
	f.IntVar(&b.load.Rate, "rate", 0, "checks a second over all clients, started on schedule; 0 is as many as can be had")
	f.IntVar(&b.procs, "procs", 1, "processes to spread the clients over")
	f.BoolVar(&b.zipf, "zipf", false, "ask about few keys most of the time")
	f.BoolVar(&b.hot, "hot", false, "ask about one key alone")
	instead(f, "zipf", "hot")
	f.Uint64Var(&b.load.Seed, "seed", 0, "seed of the order of keys; 0 draws one")
	f.StringVar(&b.part, "part", "", "for the processes that bench starts")
	if err := f.MarkHidden("part"); err != nil {
		cobra.CheckErr(err) // unreachable: the flag is defined above
	}
	jsonFlag(cmd, &b.asJSON)
	return cmd
}

func (b *bench) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	limit, err := b.check()
	if err != nil {
		return err
	}
	if b.part != "" {
		return b.runPart(ctx, limit, stdin, stdout)
	}
	if b.load.Seed == 0 {
		b.load.Seed = rand.Uint64() | 1
	}
	ours := b.prefix == ""
	if ours {
		b.prefix = fmt.Sprintf("weir-bench-%016x", rand.Uint64())
	}
	server, err := b.watchServer(ctx)
	if err != nil {
		return err
	}
	// The report is out by then: nobody is left to be told of a bad close.
	defer func() { _ = server.close() }()
	progress := newProgress(stderr, b.load.Duration)
	result, err := b.measure(ctx, limit, progress.show)
	progress.clear()
	if err != nil {
		return err
	}
	usage, err := server.used(ctx)
	if err != nil {
		return err
	}
	if ours {
		if err := server.sweep(ctx, b.prefix); err != nil {
			return err
		}
	}
	report := loadgen.NewReport(result, usage, runtime.NumCPU(), server.here)
	if b.asJSON {
		return printJSON(stdout, report)
	}
	return printBench(stdout, &report)
}

// check checks the flags and returns the limit.
func (b *bench) check() (limit weir.Limit, err error) {
	switch {
	case b.limit == "":
		return limit, misuse(`weir bench --limit 100/min`, "--limit is missing")
	case b.load.Clients < 1 || b.load.Clients > mostClients:
		return limit, misuse("", "--clients must lie between 1 and %d", mostClients)
	case b.load.Keys < 1:
		return limit, misuse("", "--keys must be at least 1")
	case b.load.Duration <= 0:
		return limit, misuse("", "--duration must be positive, such as 10s")
	case b.zipf && b.hot:
		return limit, misuse("", "--zipf and --hot exclude each other")
	case b.load.Rate < 0:
		return limit, misuse("", "--rate must not be negative")
	case b.procs < 1 || b.procs > b.load.Clients:
		return limit, misuse("", "--procs must lie between 1 and the number of clients")
	case b.load.Rate > 0 && b.load.Rate < b.procs:
		return limit, misuse("", "--rate must be at least 1 for each process")
	case b.procs > 1 && b.store == "memory":
		return limit, misuse("leave --procs out, or give a --store that processes share", "--procs needs a shared store: memory is each process's own")
	}
	if limit, err = weir.ParseLimit(b.limit); err != nil {
		return limit, misuse("", "--%w", err)
	}
	switch {
	case b.zipf:
		b.load.Spread = loadgen.Zipf
	case b.hot:
		b.load.Spread = loadgen.Hot
	}
	return limit, nil
}

// measure puts the load on, in this process or in several.
func (b *bench) measure(ctx context.Context, limit weir.Limit, progress func(int64, time.Duration)) (*loadgen.Result, error) {
	if b.procs > 1 {
		return b.runParts(ctx, progress)
	}
	limiter, err := b.open()
	if err != nil {
		return nil, err
	}
	load := b.load
	load.Progress = progress
	result := loadgen.Run(ctx, load, asker(limiter, limit))
	return result, limiter.Close()
}

func (b *bench) open() (*weir.Limiter, error) {
	store, err := daemon.OpenStore(daemon.StoreConfig{URL: b.store, Prefix: b.prefix})
	if err != nil {
		return nil, described(err)
	}
	return weir.New(weir.Options{Store: store})
}

// asker returns what makes each client's checks: a bill of its own, kept.
func asker(limiter *weir.Limiter, limit weir.Limit) func() loadgen.Ask {
	return func() loadgen.Ask {
		bill := &weir.Bill{Charges: []weir.Charge{limit.Charge("")}}
		bills := []*weir.Bill{bill}
		return func(ctx context.Context, key string) loadgen.Outcome {
			bill.Charges[0].Key = key
			switch err := limiter.Decide(ctx, bills...); {
			case err != nil || bill.Err != nil:
				return loadgen.Failed
			case bill.Allowed:
				return loadgen.Allowed
			}
			return loadgen.Denied
		}
	}
}

// benchServer is the Redis behind the store, or none.
type benchServer struct {
	conn   *redisconn.Conn
	before loadgen.Usage
	here   bool // on this machine
}

// watchServer notes what the server has used so far.
func (b *bench) watchServer(ctx context.Context) (*benchServer, error) {
	if b.store == "memory" {
		return &benchServer{}, nil
	}
	conn, err := redisconn.Open(b.store, redisconn.Settings{})
	if err != nil {
		return nil, described(&daemon.StoreError{Err: err})
	}
	s := &benchServer{conn: conn}
	client, err := conn.Client()
	if err == nil {
		s.before, err = loadgen.ReadUsage(ctx, client)
	}
	if err != nil {
		return nil, errors.Join(&failure{exitFailed, err, "is the store up?"}, conn.Close())
	}
	for addr := range client.Nodes() {
		s.here = s.here || onThisMachine(addr)
	}
	return s, nil
}

// used returns what the server used since, or nil if there is none.
func (s *benchServer) used(ctx context.Context) (*loadgen.Usage, error) {
	if s.conn == nil {
		return nil, nil
	}
	client, err := s.conn.Client()
	if err != nil {
		return nil, err
	}
	// The numbers are wanted all the more when the run was broken off.
	now, err := loadgen.ReadUsage(context.WithoutCancel(ctx), client)
	if err != nil {
		return nil, err
	}
	used := now.Since(&s.before)
	return &used, nil
}

// sweep removes what the run left that would stay for ever: balances expire, the
// marks by which the instances of a deployment know each other do not.
func (s *benchServer) sweep(ctx context.Context, prefix string) error {
	if s.conn == nil {
		return nil
	}
	client, err := s.conn.Client()
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	for _, node := range client.Nodes() {
		for at := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(at).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return fmt.Errorf("what the run left: %w", err)
			}
			ask := make([]rueidis.Completed, len(page.Elements))
			for i, key := range page.Elements {
				ask[i] = client.B().Pttl().Key(key).Build()
			}
			for i, answer := range client.DoMulti(ctx, ask...) {
				left, err := answer.AsInt64()
				if err == nil && left == -1 {
					err = client.Do(ctx, client.B().Unlink().Key(page.Elements[i]).Build()).Error()
				}
				if err != nil {
					return fmt.Errorf("what the run left: %w", err)
				}
			}
			if at = page.Cursor; at == 0 {
				break
			}
		}
	}
	return nil
}

func (s *benchServer) close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

func printBench(w io.Writer, r *loadgen.Report) error {
	_, err := fmt.Fprintf(w, `checks a second   %d
latency           p50 %g µs, p99 %g µs
allowed           %d
denied            %d
errors            %d
redis             %g µs of CPU a check
saturated         %s
`, r.ChecksPerSecond, r.P50, r.P99, r.Allowed, r.Denied, r.Errors, r.RedisCPUPerCheck, r.Saturated)
	return err
}

// progress is a line that is written over and over, where w is a terminal.
type progress struct {
	w     io.Writer
	total time.Duration
	last  int64
}

func newProgress(w io.Writer, total time.Duration) *progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{w: w, total: total}
		}
	}
	return &progress{w: io.Discard, total: total}
}

// show is given how many checks are done. What it writes is for the eye: an
// error is none of the measurement's.
func (p *progress) show(done int64, elapsed time.Duration) {
	rate := float64(done-p.last) / loadgen.Tick.Seconds()
	p.last = done
	_, _ = fmt.Fprintf(p.w, "\r%5.1f of %v   %d checks   %.0f a second \x1b[K", elapsed.Seconds(), p.total, done, rate)
}

func (p *progress) clear() { _, _ = fmt.Fprint(p.w, "\r\x1b[K") }
