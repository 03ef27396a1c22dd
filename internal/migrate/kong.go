package migrate

import (
	"fmt"
	"slices"
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
	Groups []struct {
		Name    string       `yaml:"name"`
		Plugins []kongPlugin `yaml:"plugins"`
	} `yaml:"consumer_groups"`
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
	Name       string       `yaml:"name"`
	Service    any          `yaml:"service"`
	Paths      []string     `yaml:"paths"`
	Methods    []string     `yaml:"methods"`
	Hosts      []string     `yaml:"hosts"`
	Headers    any          `yaml:"headers"`
	SNIs       any          `yaml:"snis"`
	Expression any          `yaml:"expression"`
	Plugins    []kongPlugin `yaml:"plugins"`
}

// kongPlugin applies where it stands, or where it says.
type kongPlugin struct {
	Name     string     `yaml:"name"`
	Enabled  *bool      `yaml:"enabled"`
	Service  any        `yaml:"service"`
	Route    any        `yaml:"route"`
	Consumer any        `yaml:"consumer"`
	Group    any        `yaml:"consumer_group"`
	Config   kongConfig `yaml:"config"`
}

// kongName returns what a reference names: it is a name or an ID, or a map with one.
func kongName(v any) string {
	if m, ok := v.(map[string]any); ok {
		if v = m["name"]; v == nil {
			v = m["id"]
		}
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
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
		r.kongFile(f)
	}
	return nil
}

func (r *result) kongFile(f *kongFile) {
	places := map[string]rule{} // by "service NAME" and "route NAME"
	for i := range f.Services {
		s := &f.Services[i]
		routes := slices.Clone(s.Routes)
		for _, route := range f.Routes {
			if name := kongName(route.Service); name != "" && name == s.Name {
				routes = append(routes, route)
			}
		}
		places["service "+s.Name] = kongServiceRule(s.Name, routes)
	}
	routes := slices.Clone(f.Routes)
	for _, s := range f.Services {
		routes = append(routes, s.Routes...)
	}
	for i := range routes {
		places["route "+routes[i].Name] = kongRouteRule(&routes[i])
	}
	for _, p := range f.Plugins {
		at, where := rule{name: "all"}, "all requests"
		for _, ref := range []struct {
			kind string
			name string
		}{{"service ", kongName(p.Service)}, {"route ", kongName(p.Route)}} {
			if ref.name == "" {
				continue
			}
			where = ref.kind + ref.name
			known := false
			if at, known = places[where]; !known {
				at = rule{name: ref.name, differs: []string{"it is for " + where + ", which is not in this file; add the match: that it has."}}
			}
		}
		r.kongPlugins([]kongPlugin{p}, at, where)
	}
	for _, s := range f.Services {
		for i := range s.Routes {
			r.kongRoute(&s.Routes[i])
		}
		r.kongPlugins(s.Plugins, places["service "+s.Name], "service "+s.Name)
	}
	for i := range f.Routes {
		r.kongRoute(&f.Routes[i])
	}
	for _, c := range f.Consumers {
		for _, p := range c.Plugins {
			p.Consumer = c.Username
			r.kongPlugins([]kongPlugin{p}, rule{}, "")
		}
	}
	for _, g := range f.Groups {
		for _, p := range g.Plugins {
			p.Group = g.Name
			r.kongPlugins([]kongPlugin{p}, rule{}, "")
		}
	}
	if f.Kind == "KongPlugin" || f.Kind == "KongClusterPlugin" {
		r.kongPlugins([]kongPlugin{{Name: f.Plugin, Config: f.Config}}, rule{name: f.Meta.Name}, f.Kind+" "+f.Meta.Name)
	}
}

func (r *result) kongRoute(route *kongRoute) {
	r.kongPlugins(route.Plugins, kongRouteRule(route), "route "+route.Name)
}

// kongRouteRule returns what a rule for a route's requests has.
func kongRouteRule(route *kongRoute) rule {
	one := rule{name: route.Name, paths: kongPaths(route.Paths), hosts: route.Hosts, methods: route.Methods}
	for _, p := range route.Paths {
		if strings.HasPrefix(p, "~") {
			one.differs = append(one.differs, "add to the match: the paths that "+p+" means.")
		}
	}
	for _, field := range []struct {
		name string
		is   any
	}{{"headers", route.Headers}, {"snis", route.SNIs}, {"expression", route.Expression}} {
		if field.is != nil {
			one.differs = append(one.differs, "add to the match: the "+field.name+" of route "+route.Name+".")
		}
	}
	return one
}

// kongServiceRule returns what a rule for all requests of a service has: those of its
// routes, where they can be said together.
func kongServiceRule(name string, routes []kongRoute) rule {
	at := rule{name: name}
	var names []string
	mixed := false
	for i := range routes {
		one := kongRouteRule(&routes[i])
		names = append(names, routes[i].Name)
		mixed = mixed || len(routes[i].Paths) == 0 || len(one.hosts)+len(one.methods) > 0
		at.paths, at.differs = append(at.paths, one.paths...), append(at.differs, one.differs...)
		if len(routes) == 1 {
			one.name = name
			return one
		}
	}
	if mixed {
		return rule{name: name, differs: []string{"it is for the requests of the routes " + strings.Join(names, ", ") + "; add the match: that they have."}}
	}
	return at
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
		case p.Consumer != nil && kongLimiting(p.Name):
			r.leave("plugin %s of consumer %s; give its tenant a plan, and the rule plans:", p.Name, kongName(p.Consumer))
		case p.Group != nil && kongLimiting(p.Name):
			r.leave("plugin %s of consumer group %s; make a plan of it, and give the rule plans:", p.Name, kongName(p.Group))
		case p.Name == "rate-limiting" || p.Name == "rate-limiting-advanced":
			r.kongLimits(&p, at, where)
		case p.Name == "response-ratelimiting":
			r.leave("plugin %s of %s: it counts by what the service answers; charge with cost, or weir take, there", p.Name, where)
		}
	}
}

func kongLimiting(plugin string) bool {
	return plugin == "rate-limiting" || plugin == "rate-limiting-advanced" || plugin == "response-ratelimiting"
}

func (r *result) kongLimits(p *kongPlugin, at rule, where string) {
	c := &p.Config
	one := at
	one.differs = slices.Clone(at.differs)
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
		if by != "" && by != "consumer" {
			one.differs = append(one.differs, "it counts by "+by+"; here by consumer.")
		}
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
