package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/textproto"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/identity"
)

// describedRequest is the request that is asked about, as POST /v1/explain takes it.
type describedRequest struct {
	Method  string              `json:"method"`
	Path    string              `json:"path"`
	Host    string              `json:"host,omitempty"`
	IP      string              `json:"ip,omitempty"`
	Headers map[string][]string `json:"headers,omitempty"`
	Attrs   map[string]string   `json:"attrs,omitempty"`
	Cost    int64               `json:"cost,omitempty"`
}

func newExplain() *cobra.Command {
	e := &engine{}
	r := describedRequest{}
	var headers []string
	var addr, tokenFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain PATH [-c FILE | --addr URL]",
		Short: "Say which rules apply to a request, and why the others do not",
		Long: `Say who a request comes from, which rules apply to it, which do not and why,
and what would be answered. Nothing is charged. A policy file (-c) is judged
here, on the store it names; without one the admin door at --addr is asked.`,
		Example: `  weir explain /login --method POST --ip 192.0.2.1 -c weir.yaml
  weir explain "/api/search?q=a" --header "X-API-Key: k-acme-1" -c weir.yaml`,
		Args: arguments("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Path = args[0]
			if err := r.readHeaders(headers); err != nil {
				return err
			}
			ask := func(ctx context.Context) (*gate.Explanation, error) { return r.askAdmin(ctx, addr, tokenFile) }
			if e.file != "" {
				if cmd.Flags().Changed("addr") {
					return misuse("", "--config and --addr exclude each other")
				}
				ask = func(ctx context.Context) (*gate.Explanation, error) { return r.explainHere(ctx, e, cmd.ErrOrStderr()) }
			}
			explanation, err := ask(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), explanation)
			}
			return printExplanation(cmd.OutOrStdout(), explanation)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&e.file, "config", "c", "", "the policy file")
	f.StringVar(&e.store, "store", "", "with -c: look at balances on this store instead of the file's")
	f.StringVar(&e.prefix, "key-prefix", "", "with -c: separates deployments that share a Redis")
	f.StringVar(&addr, "addr", "http://127.0.0.1:8082", "the admin door to ask, a URL or unix:PATH")
	f.StringVar(&tokenFile, "token-file", "", "file with the admin door's token")
	instead(f, "config", "addr")
	f.StringVarP(&r.Method, "method", "X", "GET", "method")
	f.StringVar(&r.Host, "host", "", "host name")
	f.StringVar(&r.IP, "ip", "", "address of the direct peer")
	f.StringArrayVarP(&headers, "header", "H", nil, "header field, \"NAME: VALUE\"; may be repeated")
	f.StringToStringVar(&r.Attrs, "attr", nil, "attribute, NAME=VALUE; may be repeated")
	f.Int64Var(&r.Cost, "cost", 0, "units; 0 leaves it to the policy")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (r *describedRequest) readHeaders(lines []string) error {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return misuse("", "--header %q is not NAME: VALUE", name)
		}
		if r.Headers == nil {
			r.Headers = make(map[string][]string)
		}
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))
		r.Headers[name] = append(r.Headers[name], strings.TrimSpace(value))
	}
	return nil
}

func (r *describedRequest) askAdmin(ctx context.Context, addr, tokenFile string) (*gate.Explanation, error) {
	c, err := newClient(addr, tokenFile, "judge a policy file here, with -c FILE")
	if err != nil {
		return nil, err
	}
	if c.token == "" {
		c.token = os.Getenv(adminToken)
	}
	e := new(gate.Explanation)
	return e, c.post(ctx, "/v1/explain", r, e)
}

func (r *describedRequest) explainHere(ctx context.Context, e *engine, stderr io.Writer) (*gate.Explanation, error) {
	path, query, _ := strings.Cut(r.Path, "?")
	call := identity.Call{
		Method: r.Method, Path: path, Query: query, Host: r.Host,
		Header: fields(r.Headers), Attrs: r.Attrs, Cost: r.Cost,
	}
	if !strings.HasPrefix(path, "/") {
		return nil, misuse("", "PATH must begin with /")
	}
	if r.IP != "" {
		ip, err := netip.ParseAddr(r.IP)
		if err != nil {
			return nil, misuse("", "--ip must be an address: %w", err)
		}
		call.Peer = ip
	}
	e.logs = "text"
	config, err := e.config(stderr)
	if err != nil {
		return nil, err
	}
	core, err := config.Open()
	if err != nil {
		return nil, described(err)
	}
	// The command ends here: nobody is left to be told of a bad close.
	defer func() { _ = core.Close() }()
	return core.Gate.Explain(ctx, &call)
}

// fields are header fields as an identity.Header.
type fields map[string][]string

// Values implements identity.Header.
func (f fields) Values(name string) []string { return f[textproto.CanonicalMIMEHeaderKey(name)] }

func printExplanation(w io.Writer, e *gate.Explanation) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // Flush tells
	or := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	line("caller\tip %s\ttenant %s\tplan %s\tuser %s", or(e.Caller.IP), or(e.Caller.Tenant), or(e.Caller.Plan), or(e.Caller.User))
	for _, m := range e.Matched {
		verdict := "admits"
		if !m.Allowed {
			verdict = "refuses"
		}
		if m.Shadow {
			verdict += ", does not decide"
		}
		left := "unlimited"
		if m.Remaining != nil {
			left = fmt.Sprintf("%d left", *m.Remaining)
		}
		line("matched\t%s\t%s\tcost %d of %s\t%s\t%s", m.Rule, m.Key, m.Cost, m.Limit, left, verdict)
	}
	for _, s := range e.Skipped {
		line("skipped\t%s\t%s", s.Rule, s.Why)
	}
	verdict := "denied"
	if e.Allowed {
		verdict = "admitted"
	}
	line("verdict\t%s\t%s", verdict, e.Reason)
	return t.Flush()
}
