package cli

import (
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/door/check"
)

// take is one run of the command.
type take struct {
	key       string
	limits    []string
	cost      int64
	times     int
	addr      string
	tokenFile string
	store     string
	prefix    string
	asJSON    bool
}

func newTake() *cobra.Command {
	t := &take{}
	cmd := &cobra.Command{
		Use:   "take KEY --limit L [--cost N] [-n TIMES]",
		Short: "Charge a key under a limit and print the decision",
		Long: `Charge a key under a limit and print the decision. A daemon at --addr decides,
or with --store this command itself. Several --limit make one bill: all are
charged or none.

Exit status: 0 admitted, 3 denied (once is enough), 2 wrong usage or nobody at
--addr, 1 failed.`,
		Example: `  weir take user:42 --limit 100/min
  weir take user:42 --limit "5/min algorithm=sliding_window" -n 7 --store memory`,
		Args: arguments("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.key = args[0]
			return t.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), cmd.Flags().Changed("addr"))
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&t.limits, "limit", nil, "the limit, such as 100/min or \"20/s burst=200\"; may be repeated")
	f.Int64Var(&t.cost, "cost", 1, "units to charge; 0 only looks")
	f.IntVarP(&t.times, "times", "n", 1, "how often to ask")
	f.StringVar(&t.addr, "addr", "http://127.0.0.1:8080", "the daemon to ask, a URL or unix:PATH")
	f.StringVar(&t.tokenFile, "token-file", "", "file with the daemon's token")
	f.StringVar(&t.store, "store", "", "decide here, on this store: memory or redis://HOST:PORT")
	f.StringVar(&t.prefix, "key-prefix", "", "with --store: what separates deployments that share a Redis")
	instead(f, "addr", "store")
	jsonFlag(cmd, &t.asJSON)
	return cmd
}

func (t *take) run(ctx context.Context, stdout, stderr io.Writer, addrGiven bool) error {
	charges, err := t.charges()
	if err != nil {
		return err
	}
	ask := t.askDaemon
	if t.store != "" {
		if addrGiven {
			return misuse("", "--addr and --store exclude each other")
		}
		limiter, err := t.open()
		if err != nil {
			return err
		}
		// The command ends here: nobody is left to be told of a bad close.
		defer func() { _ = limiter.Close() }()
		ask = func(ctx context.Context, charges []weir.Charge) (*check.Answer, error) {
			return decideHere(ctx, limiter, charges, stderr)
		}
	}
	admitted := 0
	for range t.times {
		answer, err := ask(ctx, charges)
		if err != nil {
			return err
		}
		if answer.Allowed {
			admitted++
		}
		if err := t.print(stdout, answer); err != nil {
			return err
		}
	}
	if t.times > 1 && !t.asJSON {
		if _, err := fmt.Fprintf(stdout, "%d admitted, %d denied\n", admitted, t.times-admitted); err != nil {
			return err
		}
	}
	if admitted < t.times {
		return errDenied
	}
	return nil
}

// charges checks the flags and returns the bill they make.
func (t *take) charges() ([]weir.Charge, error) {
	const example = `weir take user:42 --limit 100/min`
	switch {
	case len(t.limits) == 0:
		return nil, misuse(example, "--limit is missing")
	case t.key == "":
		return nil, misuse(example, "KEY is empty")
	case !utf8.ValidString(t.key): // JSON would make another key of it
		return nil, misuse(example, "KEY is not UTF-8")
	case t.times < 1:
		return nil, misuse("", "-n must be at least 1")
	case t.cost < 0 || t.cost > algo.MaxCost:
		return nil, misuse("", "--cost must lie between 0 and %d", int64(algo.MaxCost))
	}
	charges := make([]weir.Charge, len(t.limits))
	for i, s := range t.limits {
		limit, err := weir.ParseLimit(s)
		if err != nil {
			return nil, misuse("", "--%w", err)
		}
		charges[i] = limit.Charge(t.key)
		charges[i].Cost, charges[i].Peek = t.cost, t.cost == 0
	}
	return charges, nil
}

func (t *take) open() (*weir.Limiter, error) {
	store, err := daemon.OpenStore(daemon.StoreConfig{URL: t.store, Prefix: t.prefix})
	if err != nil {
		return nil, described(err)
	}
	return weir.New(weir.Options{Store: store})
}

// decideHere decides the bill with limiter.
func decideHere(ctx context.Context, limiter *weir.Limiter, charges []weir.Charge, stderr io.Writer) (*check.Answer, error) {
	bill := weir.Bill{Charges: charges}
	if err := limiter.Decide(ctx, &bill); err != nil {
		return nil, err
	}
	if bill.Err != nil {
		if _, err := fmt.Fprintf(stderr, "weir: warning: %v; the answer is the limit's own for that case\n", bill.Err); err != nil {
			return nil, err
		}
	}
	a := check.AnswerTo(&bill)
	return &a, nil
}

// askDaemon asks the daemon at --addr.
func (t *take) askDaemon(ctx context.Context, charges []weir.Charge) (*check.Answer, error) {
	type charge struct {
		Key   string `json:"key"`
		Limit string `json:"limit"`
		Cost  int64  `json:"cost"`
	}
	body := struct {
		Charges []charge `json:"charges"`
	}{}
	for i := range charges {
		body.Charges = append(body.Charges, charge{charges[i].Key, charges[i].Limit.String(), charges[i].Cost})
	}
	c, err := newClient(t.addr, t.tokenFile, `start one with "weir serve", or decide here with --store memory`)
	if err != nil {
		return nil, err
	}
	answer := new(check.Answer)
	return answer, c.post(ctx, "/v1/take", body, answer)
}

func (t *take) print(w io.Writer, a *check.Answer) error {
	if t.asJSON {
		return printJSON(w, a)
	}
	_, err := fmt.Fprintln(w, sentence(&a.Outcome))
	return err
}

// sentence says an outcome in words.
func sentence(o *check.Outcome) string {
	if !o.Allowed {
		switch {
		case o.RetryAfterMS < 0:
			return fmt.Sprintf("denied    %s, and would be for ever", o.Reason)
		default:
			return fmt.Sprintf("denied    %s, admitted in %s", o.Reason, span(o.RetryAfterMS))
		}
	}
	s := "admitted  "
	switch {
	case o.Limit == nil:
		s += "unlimited"
	default:
		s += fmt.Sprintf("%d of %d left", *o.Remaining, *o.Limit)
	}
	if o.ResetAfterMS > 0 {
		s += ", as if never used in " + span(o.ResetAfterMS)
	}
	if o.DelayMS > 0 {
		s += ", to wait " + span(o.DelayMS)
	}
	if o.Reason != "ok" {
		s += " (" + o.Reason + ")"
	}
	return s
}
