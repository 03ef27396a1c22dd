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

	"github.com/spf13/cobra"
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
	notice  time.Duration
	grace   time.Duration
}

func (e *engine) flags(f *pflag.FlagSet) {
	f.StringVarP(&e.file, "config", "c", "", "the policy file; without one there are no rules")
	f.StringVar(&e.store, "store", "", "where balances live: memory or a URL such as redis://127.0.0.1:6379/0")
	f.StringVar(&e.prefix, "key-prefix", "", "separates deployments that share a Redis")
	f.StringVar(&e.logs, "log-format", "text", "text or json")
	f.BoolVarP(&e.verbose, "verbose", "v", false, "log more")
	f.DurationVar(&e.notice, "drain-notice", daemon.DefaultNotice, "at the end, how long to go on serving while sending clients away")
	f.DurationVar(&e.grace, "drain-grace", daemon.DefaultGrace, "at the end, how long requests in flight may take")
}

// config reads the policy file and returns what to run, without doors.
func (e *engine) config(stderr io.Writer) (c daemon.Config, err error) {
	log, err := e.logger(stderr)
	if err != nil {
		return c, err
	}
	c = daemon.Config{Log: log, Watch: e.file != "", Notice: e.notice, Grace: e.grace}
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

// listenFlags are one door's.
type listenFlags struct {
	address, auth, tokenFile string
	cert, key, clientCA      string
}

func (l *listenFlags) flags(f *pflag.FlagSet, door, address string) {
	f.StringVar(&l.address, door, address, "where the "+door+" door listens: HOST:PORT, unix:PATH or off")
}

func (l *listenFlags) access(f *pflag.FlagSet) {
	l.certificates(f)
	l.clients(f)
}

func (l *listenFlags) clients(f *pflag.FlagSet) {
	f.StringVar(&l.auth, "auth", "", "who may use a door off loopback: token, mtls or none")
	f.StringVar(&l.tokenFile, "token-file", "", "file with the token of --auth token")
	f.StringVar(&l.clientCA, "tls-client-ca", "", "CA of the clients of --auth mtls")
}

func (l *listenFlags) certificates(f *pflag.FlagSet) {
	f.StringVar(&l.cert, "tls-cert", "", "certificate to serve TLS with")
	f.StringVar(&l.key, "tls-key", "", "its key")
}

// listen returns where the door listens: what the file says, with the flags that
// were given on top.
func (l *listenFlags) listen(f *pflag.FlagSet, door string, file *policyfile.Listener) (daemon.Listen, error) {
	tokenFile := l.tokenFile
	d := daemon.Listen{Address: l.address, Auth: l.auth, TLS: daemon.Certificates{Cert: l.cert, Key: l.key, ClientCA: l.clientCA}}
	if file != nil {
		pick := func(flag string, to *string, value string) {
			if !f.Changed(flag) {
				*to = value
			}
		}
		pick(door, &d.Address, file.Address)
		pick("auth", &d.Auth, file.Auth)
		pick("token-file", &tokenFile, file.TokenFile)
		pick("tls-cert", &d.TLS.Cert, file.TLS.CertFile)
		pick("tls-key", &d.TLS.Key, file.TLS.KeyFile)
		pick("tls-client-ca", &d.TLS.ClientCA, file.TLS.ClientCAFile)
		d.ProxyProtocol = file.ProxyProtocol
	}
	if tokenFile != "" {
		token, err := readSecret(tokenFile)
		if err != nil {
			return d, misuse("", "the token file of the %s door: %w", door, err)
		}
		d.Token = token
	}
	return d, nil
}

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
  weir serve -c weir.yaml --store redis://127.0.0.1:6379/0`,
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
