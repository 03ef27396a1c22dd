package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/migrate"
	"github.com/weirhq/weir/policy/policyfile"
)

func newMigrate() *cobra.Command {
	var kind string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate FILE",
		Short: "Print the policy nearest to another program's rate limits, and what differs",
		Long: `Read the rate limits of nginx (limit_req), envoyproxy/ratelimit, Kong, Traefik or
limitador, and print the nearest policy. What differs, and what was not carried
over, stands in its comments. FILE is - for standard input.`,
		Example: `  weir migrate /etc/nginx/nginx.conf > weir.yaml
  weir policy check weir.yaml`,
		Args: arguments("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readWhole(args[0], cmd.InOrStdin())
			if err != nil {
				return misuse("", "%w", err)
			}
			policy, err := migrate.Policy(args[0], kind, text)
			if err != nil {
				return misuse("--from names the kind: "+strings.Join(migrate.Kinds, " "), "%w", err)
			}
			// What it prints loads, or it says so: the file may hold a limit that
			// no policy can.
			_, fault := policyfile.Parse("the policy", policy)
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), map[string]any{"policy": string(policy), "loads": fault == nil})
			} else {
				_, err = cmd.OutOrStdout().Write(policy)
			}
			if err == nil && fault != nil {
				return fmt.Errorf("this is not yet a policy that loads: %w", fault)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "from", "", "what FILE is, instead of finding out: "+strings.Join(migrate.Kinds, " "))
	jsonFlag(cmd, &asJSON)
	return cmd
}

// readWhole reads a configuration, which is no larger than a few megabytes.
func readWhole(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	const most = 4 << 20
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
	return text, err
}
