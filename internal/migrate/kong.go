package migrate

import (
	"fmt"
	"strings"
)

// kongFile is a declarative configuration of Kong, or the spec of a KongPlugin.
type kongFile struct {
	Services  []kongService `yaml:"services"`
	Routes    []kongRoute   `yaml:"routes"`
	Plugins   []kongPlugin  `yaml:"plugins"`
	Consumers []struct {
		Username string       `yaml:"username"`
		Plugins  []kongPlugin `yaml:"plugins"`
	} `yaml:"consumers"`
	Kind   string     `yaml:"kind"` // KongPlugin
	Plugin string     `yaml:"plugin"`
	Config kongConfig `yaml:"config"`
	Meta   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
}

type kongService struct {
	Name    string       `yaml:"name"`
	Routes  []kongRoute  `yaml:"routes"`
	Plugins []kongPlugin `yaml:"plugins"`
}

type kongRoute struct {
	Name    string       `yaml:"name"`
	Paths   []string     `yaml:"paths"`
	Methods []string     `yaml:"methods"`
	Hosts   []string     `yaml:"hosts"`
	Plugins []kongPlugin `yaml:"plugins"`
}

type kongPlugin struct {
	Name    string     `yaml:"name"`
	Enabled *bool      `yaml:"enabled"`
	Config  kongConfig `yaml:"config"`
}

type kongConfig struct {
	Second        int64   `yaml:"second"`
	Minute        int64   `yaml:"minute"`
	Hour          int64   `yaml:"hour"`
	Day           int64   `yaml:"day"`
	Month         int64   `yaml:"month"`
	Year          int64   `yaml:"year"`
	LimitBy       string  `yaml:"limit_by"`
	HeaderName    string  `yaml:"header_name"`
	Path          string  `yaml:"path"`
	Policy        string  `yaml:"policy"`
	FaultTolerant *bool   `yaml:"fault_tolerant"`
	Limit         []int64 `yaml:"limit"` // of rate-limiting-advanced
	WindowSize    []int64 `yaml:"window_size"`
	WindowType    string  `yaml:"window_type"`
	Identifier    string  `yaml:"identifier"`
}

func (r *result) kong(text []byte) error {
	var files []*kongFile
	if err := documents(text, func() any { f := &kongFile{}; files = append(files, f); return f }); err != nil {
		return err
	}
	r.general = []string{"in Kong the plugin nearest to a request counts alone (route before service before all); in Weir every rule that matches does."}
	for _, f := range files {
		r.kongPlugins(f.Plugins, rule{name: "all"}, "all requests")
		for _, s := range f.Services {
			at := rule{name: s.Name}
			for _, route := range s.Routes {
				at.paths = append(at.paths, kongPaths(route.Paths)...)
				at.hosts = append(at.hosts, route.Hosts...)
				r.kongRoute(&route)
			}
			r.kongPlugins(s.Plugins, at, "service "+s.Name)
		}
		for _, route := range f.Routes {
			r.kongRoute(&route)
		}
		for _, c := range f.Consumers {
			for _, p := range c.Plugins {
				r.leave("plugin %s of consumer %s; give its tenant a plan, and the rule plans:", p.Name, c.Username)
			}
		}
		if f.Kind == "KongPlugin" || f.Kind == "KongClusterPlugin" {
			r.kongPlugins([]kongPlugin{{Name: f.Plugin, Config: f.Config}}, rule{name: f.Meta.Name}, f.Kind+" "+f.Meta.Name)
		}
	}
	return nil
}

func (r *result) kongRoute(route *kongRoute) {
	r.kongPlugins(route.Plugins, rule{name: route.Name, paths: kongPaths(route.Paths), hosts: route.Hosts, methods: route.Methods}, "route "+route.Name)
}

// kongPaths returns patterns of prefixes; regular expressions, which begin with
// ~, are none.
func kongPaths(paths []string) (patterns []string) {
	for _, p := range paths {
		if !strings.HasPrefix(p, "~") {
			patterns = append(patterns, pathUnder(p))
		}
	}
	return patterns
}

func (r *result) kongPlugins(plugins []kongPlugin, at rule, where string) {
	for _, p := range plugins {
		switch {
		case p.Enabled != nil && !*p.Enabled:
			r.leave("plugin %s of %s, which is not enabled", p.Name, where)
		case p.Name == "rate-limiting" || p.Name == "rate-limiting-advanced":
			r.kongLimits(&p, at, where)
		case p.Name == "response-ratelimiting":
			r.leave("plugin %s of %s: it counts by what the service answers; charge with cost, or weir take, there", p.Name, where)
		}
	}
}

func (r *result) kongLimits(p *kongPlugin, at rule, where string) {
	c := &p.Config
	one := at
	by := c.LimitBy + c.Identifier
	switch by {
	case "ip":
		one.key = []string{"ip"}
	case "service", "route":
		one.key = []string{"all"}
	case "header":
		one.key = []string{"header:" + c.HeaderName}
	case "path":
		one.key, one.paths = []string{"all"}, []string{c.Path}
	default:
		by = "consumer"
		one.key = []string{"api_key"}
		one.differs = append(one.differs, "a consumer is an API key here; name the keys in api_keys:. Without one Kong counts by address, as on_missing: ip does.")
	}
	failure := ""
	if c.FaultTolerant != nil && !*c.FaultTolerant {
		failure = " on_store_failure=closed"
	}
	if c.Policy == "local" || c.Policy == "" && p.Name == "rate-limiting" {
		one.differs = append(one.differs, "policy local counts on each node by itself; Weir in the store that the policy names.")
	}
	algorithm := "fixed_window"
	if c.WindowType == "sliding" || c.WindowType == "" && p.Name == "rate-limiting-advanced" {
		algorithm = "sliding_window"
	}
	add := func(limit, name string) {
		next := one
		next.name = at.name + "-" + name
		next.from = fmt.Sprintf("%s of %s, by %s", p.Name, where, by)
		next.limit = limit + failure
		r.add(next)
	}
	for _, l := range []struct {
		n            int64
		period, rest string
	}{{c.Second, "s", ""}, {c.Minute, "min", ""}, {c.Hour, "h", ""}, {c.Day, "day", ""}, {c.Month, "month", " tz=UTC"}, {c.Year, "year", " tz=UTC"}} {
		if l.n > 0 {
			add(fmt.Sprintf("%d/%s algorithm=fixed_window%s", l.n, l.period, l.rest), l.period)
		}
	}
	for i := range min(len(c.Limit), len(c.WindowSize)) {
		if c.WindowSize[i] > 0 {
			limit := perPeriod(c.Limit[i], c.WindowSize[i])
			_, period, _ := strings.Cut(limit, "/")
			add(limit+" algorithm="+algorithm, period)
		}
	}
}
