package cli

import (
	"fmt"
	"io"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/door/admin"
	"github.com/weirhq/weir/observe"
)

func newWhy() *cobra.Command {
	a := &adminAsk{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a request was refused, and when it would be admitted",
		Long: `Say why a request was refused: by which rule, how the balance stood and stands
now, and when the same request would be admitted. ID is in the field
Weir-Decision of the refusal, and in its body.

A daemon remembers its last 8,192 refusals. With events in a Redis stream it also
finds those of other instances there, without their balance.`,
		Example: `  weir why 0193f2a4c1b7d0e5a1b2c3d4e5f60718`,
		Args:    arguments("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var y admin.Why
			if err := a.get(cmd.Context(), "/v1/why?id="+url.QueryEscape(args[0]), &y); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), y)
			}
			return printWhy(cmd.OutOrStdout(), &y)
		},
	}
	a.flags(cmd.Flags())
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printWhy(w io.Writer, y *admin.Why) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, observe.Harmless(value)) // Flush tells
		}
	}
	line("refused", y.At)
	line("rule", y.Rule)
	line("reason", y.Reason)
	if y.StoreFailed {
		line("store", "did not decide; the answer is the one the limit states for that case")
	}
	line("tenant", y.Tenant)
	line("plan", y.Plan)
	line("instance", y.Instance)
	line("key", y.Key)
	line("key hash", y.KeyHash)
	if y.Limit != "" {
		line("limit", fmt.Sprintf("%s, of which the request costs %d", y.Limit, y.Cost))
	}
	if y.Then != nil {
		line("then", balanceText(y.Then))
	}
	if y.Now != nil {
		line("now", balanceText(y.Now))
	}
	return t.Flush()
}

func balanceText(b *admin.Balance) string {
	left := fmt.Sprintf("%d left", max(b.Remaining, 0))
	switch {
	case b.Allowed:
		return left + ", admitted"
	case b.ClearsAt == "":
		return left + ", refused for ever"
	}
	return fmt.Sprintf("%s, admitted in %s, at %s", left, span(b.RetryAfterMS), b.ClearsAt)
}
