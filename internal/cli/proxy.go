package cli

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/door/proxy"
	"github.com/weirhq/weir/policy/policyfile"
)

func newProxy() *cobra.Command {
	e, l := &engine{}, &listenFlags{}
	var upstream, limit string
	var key, trusted []string
	proxyProtocol := false
	o := proxy.Options{}
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL [--limit L --key ip] [-c FILE]",
		Short: "Run a limiting reverse proxy",
		Long: `Run a reverse proxy that passes on what the policy admits and refuses the rest
with 429. Either one --limit, counted by --key, or a policy file says what is
admitted. The listener serves nothing of its own.`,
		Example: `  weir proxy --upstream http://127.0.0.1:3000 --limit 100/min --key ip
  weir proxy --upstream http://127.0.0.1:3000 -c weir.yaml --listen :8000`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := upstreamURL(upstream)
			if err != nil {
				return err
			}
			o.Upstream = u
			if (limit == "") == (e.file == "") {
				return misuse("weir proxy --upstream URL --limit 100/min --key ip", "either --limit or a policy file (-c) says what is admitted")
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
			return e.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&upstream, "upstream", "", "where admitted requests go, such as http://127.0.0.1:3000")
	f.StringVar(&limit, "limit", "", "one limit for everything, such as 100/min")
	f.StringSliceVar(&key, "key", []string{"ip"}, "with --limit: what callers are told apart by, such as ip,route")
	f.StringSliceVar(&trusted, "trusted-proxies", nil, "with --limit: networks whose X-Forwarded-For, or PROXY header, is believed")
	f.StringVar(&l.address, "listen", "127.0.0.1:8000", "where the proxy listens: HOST:PORT or unix:PATH")
	f.BoolVar(&proxyProtocol, "proxy-protocol", false, "trusted peers announce their clients by a PROXY header, and must; others must not")
	f.BoolVar(&o.OwnHost, "upstream-host", false, "send the upstream's host name instead of the client's")
	f.DurationVar(&o.AnswerWithin, "upstream-timeout", time.Minute, "how long the upstream may take to begin its answer")
	f.IntVar(&o.MaxWaiting, "max-waiting", 1000, "how many requests leaky buckets may hold back at a time")
	l.certificates(f)
	e.flags(f)
	return cmd
}

func upstreamURL(s string) (*url.URL, error) {
	const hint = "weir proxy --upstream http://127.0.0.1:3000 --limit 100/min"
	if s == "" {
		return nil, misuse(hint, "--upstream is missing")
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, misuse(hint, "--upstream must be http://HOST[:PORT][/PATH] or https://…")
	}
	return u, nil
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
