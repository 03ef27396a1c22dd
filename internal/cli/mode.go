package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/door/admin"
)

// adminAsk are the flags of the commands that ask the admin door.
type adminAsk struct{ addr, tokenFile string }

func (a *adminAsk) flags(f *pflag.FlagSet) {
	f.StringVar(&a.addr, "addr", "http://127.0.0.1:8082", "the admin door to ask, a URL or unix:PATH")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the admin door's token; or set "+adminToken)
}

// post asks the admin door.
func (a *adminAsk) post(ctx context.Context, path string, body, answer any) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return c.post(ctx, path, body, answer)
}

// get asks it for what only has to be looked at.
func (a *adminAsk) get(ctx context.Context, path string, answer any) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return c.get(ctx, path, answer)
}

func (a *adminAsk) client() (*client, error) {
	c, err := newClient(a.addr, a.tokenFile, "weir serve opens the admin door on 127.0.0.1:8082; --addr names another")
	if err == nil && c.token == "" {
		c.token = os.Getenv(adminToken)
	}
	return c, err
}

func newMode() *cobra.Command {
	a := &adminAsk{}
	var rule, by string
	var length time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mode shadow|enforce --for 15m [--rule R]",
		Short: "Switch rules to shadow or enforce for a while, on all instances",
		Long: `Switch a rule, or every rule, to shadow (it is counted and decides nothing) or
to enforce, for a stated time. All instances on one store follow within a second,
and go back to the policy's own modes when the time is up. --for 0s ends a switch.
A daemon that was started with --shadow follows what is switched by name alone.

Without a shared store, or while it is away, the one daemon that is asked follows.`,
		Example: `  weir mode shadow --for 15m
  weir mode enforce --rule login --for 1h
  weir mode shadow --for 0s`,
		Args: arguments("shadow|enforce"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("for") {
				return misuse("usage: "+cmd.UseLine(), "--for is missing: a switch always ends")
			}
			ask := map[string]any{"mode": args[0], "for": length.String(), "by": by}
			if rule != "" {
				ask["rule"] = rule
			}
			var s admin.Switched
			if err := a.post(cmd.Context(), "/v1/mode", ask, &s); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			what, where := "every rule", "on all instances"
			if s.Rule != "" {
				what = "rule " + s.Rule
			}
			if !s.Everywhere {
				where = "on this instance alone: there is no shared store, or it is away"
			}
			if length == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: the policy's mode holds again, %s\n", what, where)
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s until %s, %s\n", what, s.Mode, s.Until, where)
			return err
		},
	}
	f := cmd.Flags()
	f.DurationVar(&length, "for", 0, "how long, at most 24h; 0s ends the switch that is there")
	f.StringVar(&rule, "rule", "", "one rule; every rule without it")
	f.StringVar(&by, "by", os.Getenv("USER"), "who does it, for the log")
	a.flags(f)
	jsonFlag(cmd, &asJSON)
	return cmd
}
