package cli

import (
	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/policy/policyfile"
)

func newServe() *cobra.Command {
	e, l, a, g, r := &engine{}, &listenFlags{}, &adminFlags{}, &rlsFlags{}, &respFlags{}
	drills := false
	cmd := &cobra.Command{
		Use:   "serve [-c FILE]",
		Short: "Run the daemon",
		Long: `Run the daemon: the HTTP API in front of a store, under a policy.

SIGHUP, or a change of the policy file, puts the file in force anew; a file that
is wrong changes nothing. SIGTERM ends the daemon when everybody in flight has
been answered.

The admin door explains what is decided (weir explain asks it). Off loopback it
takes a token: WEIR_ADMIN_TOKEN, or admin.token_file in the policy file.

With --rls-config the daemon stands in for envoyproxy/ratelimit: it reads that
server's files and answers /json on the http door and gRPC on the grpc door. The
other --rls flags are what that server takes from its environment.`,
		Example: `  weir serve
  weir serve --grpc 127.0.0.1:8081 --rls-config config/
  weir serve --resp 127.0.0.1:6390
  weir serve -c weir.yaml --store redis://127.0.0.1:6379/0
  weir serve -c weir.yaml --shadow`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := e.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var file *policyfile.Listener
			if c.File != nil {
				file = &c.File.Listen.HTTP
			}
			listen, err := l.listen(cmd.Flags(), "http", file)
			if err != nil {
				return err
			}
			if listen.Address != "" && listen.Address != daemon.Off {
				c.Doors = append(c.Doors, daemon.HTTP(listen))
			}
			management, err := a.listen(cmd.Flags(), c.File)
			if err != nil {
				return err
			}
			if err := g.config(cmd.Flags(), l, &c); err != nil {
				return err
			}
			if err := r.config(cmd.Flags(), l, &c); err != nil {
				return err
			}
			if management.Address != "" && management.Address != daemon.Off {
				c.Doors = append(c.Doors, daemon.Admin(management))
			}
			if len(c.Doors) == 0 {
				return misuse("", "every door is off: there is nothing to serve")
			}
			c.Store.Drills = drills
			return e.run(cmd.Context(), c)
		},
	}
	e.flags(cmd.Flags())
	l.flags(cmd.Flags(), "http", "127.0.0.1:8080")
	l.access(cmd.Flags())
	a.flags(cmd.Flags())
	g.flags(cmd.Flags())
	r.flags(cmd.Flags())
	cmd.Flags().BoolVar(&drills, "allow-drills", false, "let weir drill make the store fail on purpose, for a while")
	return cmd
}
