package cli

import (
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/door/admin"
)

// balanceFlags name a balance: by rule and the parts of its key, or by the key and
// limit of take.
type balanceFlags struct {
	rule, key, limit, by string
	tenant, user, ip     string
	parts                map[string]string
	without              []string
}

func (b *balanceFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&b.rule, "rule", "", "the rule whose balance it is")
	f.StringVar(&b.tenant, "tenant", "", "with --rule: the tenant; short for --part tenant=T")
	f.StringVar(&b.ip, "ip", "", "with --rule: the address; short for --part ip=A")
	f.StringVar(&b.user, "user", "", "with --rule: the user; short for --part user=U")
	f.StringToStringVar(&b.parts, "part", nil, "with --rule: a part of its key, NAME=VALUE; may be repeated")
	f.StringSliceVar(&b.without, "without", nil, "with --rule and --ip: a part that the callers do not have, such as tenant: the balance that they share with their network")
	f.StringVar(&b.key, "key", "", "the key of take, with --limit")
	f.StringVar(&b.limit, "limit", "", "with --key: the limit")
	instead(f, "rule", "key")
	f.StringVar(&b.by, "by", os.Getenv("USER"), "who does it, for the log")
}

// body returns what the admin door is asked.
func (b *balanceFlags) body(cmd *cobra.Command) (map[string]any, error) {
	example := "weir " + cmd.Name() + " --rule per-tenant --tenant acme"
	parts := map[string]any{}
	for _, name := range b.without {
		parts[name] = nil
	}
	for name, value := range b.parts {
		parts[name] = value
	}
	for name, value := range map[string]string{"tenant": b.tenant, "ip": b.ip, "user": b.user} {
		if value != "" {
			parts[name] = value
		}
	}
	for name, value := range parts {
		if value, ok := value.(string); ok && !utf8.ValidString(value) { // JSON would make another key of it
			return nil, misuse(example, "part %s is not UTF-8", name)
		}
	}
	switch {
	case !utf8.ValidString(b.key):
		return nil, misuse(example, "--key is not UTF-8")
	case b.rule == "" && b.key == "":
		return nil, misuse(example, "name a balance by --rule and its parts, or by --key and --limit")
	case b.rule != "" && b.key != "":
		return nil, misuse(example, "--rule and --key exclude each other")
	case b.key != "" && b.limit == "":
		return nil, misuse("weir "+cmd.Name()+" --key user:42 --limit 100/min", "--limit is missing")
	case b.key != "":
		return map[string]any{"key": b.key, "limit": b.limit, "by": b.by}, nil
	}
	return map[string]any{"rule": b.rule, "parts": parts, "by": b.by}, nil
}

func newReset() *cobra.Command {
	b, a := &balanceFlags{}, &adminAsk{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reset --rule R --tenant T",
		Short: "Forget what a caller has used, blocks included",
		Long: `Forget what a caller has used of a rule: of the limits of every plan, and of the
rule's try. A block on it ends. It is written to the daemon's log. Other instances
follow within a second: until then they may refuse what they know as refused.`,
		Example: `  weir reset --rule per-tenant --tenant acme
  weir reset --rule login --ip 192.0.2.1 --part route=/login
  weir reset --key user:42 --limit 100/min`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := b.body(cmd)
			if err != nil {
				return err
			}
			return done(cmd, a, "/v1/reset", body, asJSON, "forgotten"+elsewhere)
		},
	}
	b.flags(cmd.Flags())
	a.flags(cmd.Flags())
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newBlock() *cobra.Command {
	b, a := &balanceFlags{}, &adminAsk{}
	var length time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "block --rule R --tenant T --for 1h",
		Short: "Refuse a caller for a while",
		Long: `Refuse everything a caller asks of a rule, for a stated time. What was used
stays as it is. --for 0s lifts a block. It is written to the daemon's log.`,
		Example: `  weir block --rule per-tenant --tenant acme --for 15m
  weir block --rule login --ip 192.0.2.1 --part route=/login --for 24h
  weir block --rule per-tenant --tenant acme --for 0s`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("for") {
				return misuse("usage: "+cmd.UseLine(), "--for is missing: a block always ends")
			}
			body, err := b.body(cmd)
			if err != nil {
				return err
			}
			if length == 0 {
				return done(cmd, a, "/v1/unblock", body, asJSON, "no longer blocked"+elsewhere)
			}
			body["for"] = length.String()
			return done(cmd, a, "/v1/block", body, asJSON, "blocked")
		},
	}
	b.flags(cmd.Flags())
	cmd.Flags().DurationVar(&length, "for", 0, "how long, at most 366 days; 0s lifts a block")
	a.flags(cmd.Flags())
	jsonFlag(cmd, &asJSON)
	return cmd
}

// elsewhere is said of what other instances may know otherwise for a moment: a
// refusal in their deny cache stands for a second at most.
const elsewhere = "; other instances follow within a second"

// done asks the admin door to step in and says that it has.
func done(cmd *cobra.Command, a *adminAsk, path string, body map[string]any, asJSON bool, word string) error {
	var d admin.Done
	if err := a.post(cmd.Context(), path, body, &d); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), d)
	}
	if d.Until != "" {
		word += " until " + d.Until
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), word)
	return err
}
