package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weirhq/weir/internal/daemon"
	"github.com/weirhq/weir/internal/door/rls"
	"github.com/weirhq/weir/policy/policyfile"
)

// rlsFlags are those of the rate limit service. It is in the policy file nowhere:
// it has files of its own.
type rlsFlags struct {
	address string
	dir     string
	near    string
	headers string
	rls.Options
}

const standardHeaders = "RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset"

func (g *rlsFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&g.address, "grpc", daemon.Off, "where the grpc door listens (Envoy's Rate Limit Service): HOST:PORT, unix:PATH or off")
	f.StringVar(&g.dir, "rls-config", "", "the directory with the configuration of envoyproxy/ratelimit")
	f.BoolVar(&g.Load.Merge, "rls-merge-domains", false, "let several files add to one domain (MERGE_DOMAIN_CONFIG)")
	f.BoolVar(&g.Load.AllOrNothing, "rls-all-or-nothing", false, "charge all descriptors of a request or none (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT)")
	f.BoolVar(&g.Shadow, "rls-shadow", false, "never say OVER_LIMIT as a whole (SHADOW_MODE)")
	f.BoolVar(&g.Quota, "rls-quota", false, "refuse only if all descriptors are over their limit (QUOTA_MODE)")
	f.BoolVar(&g.Metadata, "rls-metadata", false, "answer with dynamic metadata (RESPONSE_DYNAMIC_METADATA)")
	f.StringVar(&g.headers, "rls-headers", "", "answer with these three header fields, or with "+standardHeaders+" where none are named (LIMIT_RESPONSE_HEADERS_ENABLED)")
	f.Lookup("rls-headers").NoOptDefVal = standardHeaders
	f.StringVar(&g.near, "rls-near-limit", "0.8", "from which part of a limit on hits count as near it (NEAR_LIMIT_RATIO)")
}

// config adds to c what the flags and the policy file say.
func (g *rlsFlags) config(f *pflag.FlagSet, l *listenFlags, c *daemon.Config) error {
	var file *policyfile.Listener
	if c.File != nil {
		file = &c.File.Listen.GRPC
	}
	door := *l
	door.address = g.address
	listen, err := door.listen(f, "grpc", file)
	if err != nil {
		return err
	}
	open := listen.Address != "" && listen.Address != daemon.Off
	if g.dir == "" {
		if open {
			return misuse("the grpc door speaks Envoy's Rate Limit Service", "the grpc door needs --rls-config DIR")
		}
		return withoutDir(f)
	}
	g.Dir = g.dir
	near, err := strconv.ParseFloat(g.near, 64)
	if err != nil || !(near > 0 && near <= 1) {
		return misuse("", "--rls-near-limit %q: use a number above 0 and up to 1, such as 0.8", g.near)
	}
	g.Near = int64(math.Round(near * 1000))
	if g.headers != "" {
		names := strings.Split(g.headers, ",")
		if len(names) != len(g.Headers) {
			return misuse("", "--rls-headers takes three names: limit, remaining, reset")
		}
		for i, name := range names {
			if g.Headers[i] = strings.TrimSpace(name); !token(g.Headers[i]) {
				return misuse("", "--rls-headers: %q is no name of a header field", name)
			}
		}
	}
	o := g.Options
	c.RLS = &o
	if open {
		c.Doors = append(c.Doors, daemon.GRPC(listen))
	}
	return nil
}

// withoutDir refuses the flags that only have a meaning beside --rls-config: whoever
// gives one means to run that service.
func withoutDir(f *pflag.FlagSet) (err error) {
	f.Visit(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, "rls-") && flag.Name != "rls-config" && err == nil {
			err = misuse("", "--%s needs --rls-config DIR", flag.Name)
		}
	})
	return err
}

// token reports whether s may be the name of a header field.
func token(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}
