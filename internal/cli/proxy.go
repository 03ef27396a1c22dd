package cli

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/door/proxy"
	"github.com/weirhq/weir/policy/policyfile"
)

func newProxy() *cobra.Command {
	e, l, a := &engine{}, &listenFlags{}, &adminFlags{}
	beside, g, r := &listenFlags{}, &rlsFlags{}, &respFlags{}
	var limit string
	var upstreams, key, trusted, attrs []string
	proxyProtocol := false
	o := proxy.Options{}
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL [--limit L --key ip] [-c FILE]",
		Short: "Run a limiting reverse proxy",
		Long: `Run a reverse proxy that passes on what the policy admits and refuses the rest
with 429. Either one --limit, counted by --key, or a policy file says what is
admitted. The listener serves nothing of its own: --http, --grpc and --resp open the
doors of weir serve beside it, on the same balances. What the policy file says
under listen is weir serve's, and does not open them.`,
		Example: `  weir proxy --upstream http://127.0.0.1:3000 --limit 100/min --key ip
  weir proxy --upstream http://127.0.0.1:3000 -c weir.yaml --listen :8000`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := upstreamsOf(&o, upstreams, attrs)
			if err != nil {
				return err
			}
			if (limit == "") == (e.file == "") {
				return misuse("weir proxy --upstream URL --limit 100/min --key ip", "either --limit or a policy file (-c) says what is admitted")
			}
			for _, name := range []string{"key", "trusted-proxies"} {
				if e.file != "" && cmd.Flags().Changed(name) {
					return misuse("the policy file says it: key of a rule, client_ip.trusted_proxies", "--%s goes with --limit, not with a policy file", name)
				}
			}
			c, err := e.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if limit != "" {
				if c.File, err = oneRule(limit, key, trusted); err != nil {
					return err
				}
			}
			listen, err := l.listen(cmd.Flags(), "listen", nil)
			if err != nil {
				return err
			}
			listen.ProxyProtocol = proxyProtocol
			if proxyProtocol && len(c.File.ClientIP.TrustedProxies) == 0 && !c.File.ClientIP.TrustUnix {
				return misuse("name the balancers: --trusted-proxies with --limit, client_ip.trusted_proxies in a policy file",
					"--proxy-protocol believes trusted peers, and none is named")
			}
			c.Doors = []daemon.Door{daemon.Proxy(listen, o)}
			beside.cert, beside.key = l.cert, l.key
			if err := besides(cmd.Flags(), beside, g, r, &c); err != nil {
				return err
			}
			if a.address != daemon.Off { // the file's is that of serve, which may run beside
				management, err := a.listen(cmd.Flags(), c.File)
				if err != nil {
					return err
				}
				c.Doors = append(c.Doors, daemon.Admin(management))
			}
			return e.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&upstreams, "upstream", nil, "where admitted requests go, such as http://127.0.0.1:3000; h2c://… for HTTP/2 without TLS; may be repeated")
	f.StringVar(&o.HealthPath, "upstream-health", "", "a path of every upstream; one where it fails gets no requests while others do")
	f.StringVar(&limit, "limit", "", "one limit for everything, such as 100/min")
	f.StringSliceVar(&key, "key", []string{"ip"}, "with --limit: what callers are told apart by, such as ip,route")
	f.StringSliceVar(&trusted, "trusted-proxies", nil, "with --limit: networks whose X-Forwarded-For, or PROXY header, is believed")
	f.StringVar(&l.address, "listen", "127.0.0.1:8000", "where the proxy listens: HOST:PORT or unix:PATH")
	f.BoolVar(&proxyProtocol, "proxy-protocol", false, "trusted peers announce their clients by a PROXY header, and must; others must not")
	f.BoolVar(&o.OwnHost, "upstream-host", false, "send the upstream's host name instead of the client's")
	f.DurationVar(&o.AnswerWithin, "upstream-timeout", time.Minute, "how long the upstream may take to begin its answer")
	f.StringArrayVar(&attrs, "attr", nil, "read attr:NAME from the first 8 KiB of bodies: NAME=form:FIELD or NAME=json:FIELD; may be repeated")
	f.DurationVar(&o.MaxWait, "max-wait", 30*time.Second, "how long a leaky bucket may hold a request back")
	f.IntVar(&o.MaxWaiting, "max-waiting", 1000, "how many requests leaky buckets may hold back at a time")
	f.StringVar(&a.address, "admin", daemon.Off, "where the admin door listens, with its metrics: HOST:PORT, unix:PATH or off")
	l.certificates(f)
	beside.flags(f, "http", daemon.Off)
	beside.clients(f)
	g.flags(f)
	r.flags(f)
	e.flags(f)
	for _, other := range []string{"limit", "key", "trusted-proxies"} {
		instead(f, "config", other)
	}
	return cmd
}

// besides adds the doors of weir serve that flags ask for. The policy file's are
// left to a weir serve that may run beside, but for who may use them.
func besides(f *pflag.FlagSet, l *listenFlags, g *rlsFlags, r *respFlags, c *daemon.Config) error {
	if l.address != daemon.Off {
		listen, err := l.listen(f, "http", &c.File.Listen.HTTP)
		if err != nil {
			return err
		}
		c.Doors = append(c.Doors, daemon.HTTP(listen))
	}
	if f.Changed("resp") {
		if err := r.config(f, l, c); err != nil {
			return err
		}
	}
	if f.Changed("grpc") {
		return g.config(f, l, c)
	}
	if f.Changed("rls-config") {
		return misuse("name the door: --grpc HOST:PORT", "--rls-config goes with --grpc here")
	}
	if err := withoutDir(f); err != nil {
		return err
	}
	for door, listen := range map[string]*policyfile.Listener{"grpc": &c.File.Listen.GRPC, "resp": &c.File.Listen.RESP} {
		if listen.Address != "" && listen.Address != daemon.Off && !f.Changed(door) {
			c.Log.Warn("the policy file's door is weir serve's and is not opened here", "door", door, "address", listen.Address, "flag", "--"+door)
		}
	}
	return nil
}

// upstreamsOf reads what requests are passed on to, how long they may take, and
// what is read of them.
func upstreamsOf(o *proxy.Options, upstreams, attrs []string) error {
	const hint = "weir proxy --upstream http://127.0.0.1:3000 --limit 100/min"
	if len(upstreams) == 0 {
		return misuse(hint, "--upstream is missing")
	}
	for _, s := range upstreams {
		u, err := url.Parse(s)
		if err != nil {
			return misuse(hint, "--upstream %q is no URL", redacted(s))
		}
		o.Upstreams = append(o.Upstreams, u)
	}
	if err := proxy.CheckUpstreams(o.Upstreams); err != nil {
		return misuse(hint, "--upstream: %w", err)
	}
	if o.AnswerWithin <= 0 {
		return misuse("", "--upstream-timeout must be positive, such as 1m")
	}
	if o.MaxWait <= 0 {
		return misuse("1ms holds back next to nothing", "--max-wait must be positive, such as 30s")
	}
	if o.MaxWaiting < 1 {
		return misuse("--max-wait 1ms holds back next to nothing", "--max-waiting must be at least 1")
	}
	if o.HealthPath != "" && !strings.HasPrefix(o.HealthPath, "/") {
		return misuse("weir proxy --upstream-health /healthz …", "--upstream-health: %q does not begin with /", o.HealthPath)
	}
	for _, s := range attrs {
		a, err := proxy.ParseBodyAttr(s)
		if err != nil {
			return misuse("", "--attr %q: %w", s, err)
		}
		o.Attrs = append(o.Attrs, a)
	}
	return nil
}

// oneRule returns the policy of one limit for everything.
func oneRule(limit string, key, trusted []string) (*policyfile.File, error) {
	if _, err := weir.ParseLimit(limit); err != nil {
		return nil, misuse("", "--%w", err)
	}
	for _, part := range key {
		if _, err := identity.ParsePart(part); err != nil {
			return nil, misuse("", "--%w", err) // names its field, which is key
		}
	}
	for _, peer := range trusted {
		if _, err := netip.ParsePrefix(peer); err != nil {
			return nil, misuse("write a network such as 10.0.0.0/8 or 127.0.0.1/32", "--trusted-proxies: %q is no network", peer)
		}
	}
	// A policy as a file would say it: what is checked and defaulted there holds
	// here as well.
	policy := map[string]any{"limits": []any{map[string]any{"name": "default", "key": key, "limit": limit}}}
	if len(trusted) > 0 {
		policy["client_ip"] = map[string]any{"trusted_proxies": trusted}
	}
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, err
	}
	f, err := policyfile.Parse("", text)
	var faults policyfile.Errors
	if errors.As(err, &faults) { // what is left is about the parts together; it has no place in a file
		return nil, misuse("", "--key: %s", faults[0].Problem)
	}
	return f, err
}
