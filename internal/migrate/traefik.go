package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// traefikFile is a dynamic configuration of Traefik, or a Middleware of
// Kubernetes.
type traefikFile struct {
	HTTP struct {
		Middlewares map[string]traefikMiddleware `yaml:"middlewares"`
		Routers     map[string]traefikRouter     `yaml:"routers"`
	} `yaml:"http"`
	Kind string            `yaml:"kind"`
	Spec traefikMiddleware `yaml:"spec"`
	Meta struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
}

type traefikRouter struct {
	Rule        string   `yaml:"rule"`
	Middlewares []string `yaml:"middlewares"`
}

type traefikMiddleware struct {
	RateLimit *traefikLimit `yaml:"rateLimit"`
	InFlight  any           `yaml:"inFlightReq"`
}

type traefikLimit struct {
	Average         int64 `yaml:"average"`
	Period          any   `yaml:"period"`
	Burst           int64 `yaml:"burst"`
	SourceCriterion struct {
		IPStrategy struct {
			Depth       int      `yaml:"depth"`
			ExcludedIPs []string `yaml:"excludedIPs"`
			IPv6Subnet  int      `yaml:"ipv6Subnet"`
		} `yaml:"ipStrategy"`
		RequestHeaderName string `yaml:"requestHeaderName"`
		RequestHost       bool   `yaml:"requestHost"`
	} `yaml:"sourceCriterion"`
	wrong string // a label that is no number where there should be one
}

func (r *result) traefik(text []byte) error {
	r.general = []string{
		"Traefik holds a request that is a little too early back and then passes it; Weir refuses it and says when to come again.",
		"Traefik counts in each instance unless it has Redis, Weir in the store that the policy names.",
	}
	if labels := traefikLabels(text); labels != nil {
		for _, name := range sorted(labels.HTTP.Middlewares) {
			r.traefikMiddleware(labels, name)
		}
		return nil
	}
	var files []*traefikFile
	if err := documents(text, func() any { f := &traefikFile{}; files = append(files, f); return f }); err != nil {
		return err
	}
	for _, f := range files {
		if f.Kind == "Middleware" {
			f.HTTP.Middlewares = map[string]traefikMiddleware{f.Meta.Name: f.Spec}
		}
		for _, name := range sorted(f.HTTP.Middlewares) {
			r.traefikMiddleware(f, name)
		}
	}
	return nil
}

func sorted[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var aLabel = regexp.MustCompile(`(?i)traefik\.http\.(middlewares|routers)\.([\w-]+)\.(ratelimit|inflightreq|rule|middlewares)\.?([\w.]*)\s*[=:]\s*["']?(.*?)["']?\s*$`)

// traefikLabels reads labels of containers, or returns nil if there are none.
func traefikLabels(text []byte) *traefikFile {
	f := &traefikFile{}
	f.HTTP.Middlewares, f.HTTP.Routers = map[string]traefikMiddleware{}, map[string]traefikRouter{}
	found := false
	for line := range strings.Lines(string(text)) {
		m := aLabel.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		found = true
		name, value := m[2], m[5]
		switch strings.ToLower(m[3]) {
		case "ratelimit":
			one := f.HTTP.Middlewares[name]
			if one.RateLimit == nil {
				one.RateLimit = &traefikLimit{}
			}
			one.RateLimit.label(strings.ToLower(m[4]), value)
			f.HTTP.Middlewares[name] = one
		case "inflightreq":
			f.HTTP.Middlewares[name] = traefikMiddleware{InFlight: true}
		case "rule", "middlewares":
			router := f.HTTP.Routers[name]
			if strings.EqualFold(m[3], "rule") {
				router.Rule = value
			} else {
				router.Middlewares = list(value)
			}
			f.HTTP.Routers[name] = router
		}
	}
	if !found {
		return nil
	}
	return f
}

// label takes one label.
func (l *traefikLimit) label(field, value string) {
	number := func() int64 {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			l.wrong = field + " " + value
		}
		return n
	}
	c := &l.SourceCriterion
	switch field {
	case "average":
		l.Average = number()
	case "burst":
		l.Burst = number()
	case "period":
		l.Period = value
	case "sourcecriterion.requestheadername":
		c.RequestHeaderName = value
	case "sourcecriterion.requesthost":
		c.RequestHost = value == "true"
	case "sourcecriterion.ipstrategy.depth":
		c.IPStrategy.Depth = int(number())
	case "sourcecriterion.ipstrategy.ipv6subnet":
		c.IPStrategy.IPv6Subnet = int(number())
	case "sourcecriterion.ipstrategy.excludedips":
		c.IPStrategy.ExcludedIPs = list(value)
	}
}

// list returns the parts of a label that has several.
func list(value string) (parts []string) {
	for part := range strings.SplitSeq(value, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

func (r *result) traefikMiddleware(f *traefikFile, name string) {
	m := f.HTTP.Middlewares[name]
	if m.InFlight != nil {
		r.leave("inFlightReq of middleware %s. Weir limits requests over time, not requests at once", name)
	}
	l := m.RateLimit
	if l == nil {
		return
	}
	if l.wrong != "" {
		r.leave("middleware %s: its %s is no number", name, l.wrong)
		return
	}
	one := rule{name: name, from: fmt.Sprintf("middleware %s: average %d, burst %d", name, l.Average, l.Burst)}
	period, err := traefikPeriod(l.Period)
	switch {
	case l.Average == 0:
		one.limit = "unlimited"
	case err != nil:
		r.leave("middleware %s: its period %v is none", name, l.Period)
		return
	default:
		one.limit = fmt.Sprintf("%d/%s burst=%d", l.Average, period, max(l.Burst, 1))
		if l.Period != nil {
			one.from += fmt.Sprintf(", period %v", l.Period)
		}
	}
	c := &l.SourceCriterion
	switch {
	case c.RequestHeaderName != "":
		one.key = []string{"header:" + c.RequestHeaderName}
	case c.RequestHost:
		one.key = []string{"host"}
	default:
		one.key = []string{"ip"}
		by := &c.IPStrategy
		if by.Depth > 0 {
			one.differs = append(one.differs, fmt.Sprintf("it takes the client from X-Forwarded-For, %d from the end; name your proxies in client_ip.trusted_proxies.", by.Depth))
		}
		if len(by.ExcludedIPs) > 0 {
			one.differs = append(one.differs, "it passes over "+strings.Join(by.ExcludedIPs, ", ")+" in X-Forwarded-For; name your proxies in client_ip.trusted_proxies.")
		}
		if by.IPv6Subnet > 0 {
			one.differs = append(one.differs, fmt.Sprintf("it counts IPv6 by networks of /%d; see client_ip.", by.IPv6Subnet))
		}
	}
	used := false
	for _, router := range sorted(f.HTTP.Routers) {
		list := f.HTTP.Routers[router]
		if !slices.ContainsFunc(list.Middlewares, func(s string) bool { s, _, _ = strings.Cut(s, "@"); return s == name }) {
			continue
		}
		used = true
		next := one
		next.name = name + "-" + router
		next.from += ", at router " + router + ": " + list.Rule
		next.differs = append(slices.Clone(one.differs), next.traefikRule(list.Rule)...)
		r.add(next)
	}
	if !used {
		one.differs = append(one.differs, "no router here uses it; add the match: of those that do.")
		r.add(one)
	}
}

func traefikPeriod(v any) (string, error) {
	text := fmt.Sprint(v)
	if v == nil {
		return "s", nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		text = fmt.Sprintf("%ds", n)
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return "", err
	case d <= 0:
		return "", fmt.Errorf("the period is not above 0")
	case d%time.Millisecond != 0:
		return "", fmt.Errorf("the period is no whole number of milliseconds")
	case d%time.Second != 0:
		return fmt.Sprintf("%dms", d.Milliseconds()), nil
	}
	_, period, _ := strings.Cut(perPeriod(1, int64(d/time.Second)), "/")
	return period, nil
}

var aMatcher = regexp.MustCompile("^(Host|PathPrefix|Path|Method)\\(`([^`]*)`(?:, *`([^`]*)`)?\\)$")

// traefikRule adds the conditions of a router's rule, and says what it could not
// read.
func (one *rule) traefikRule(text string) (differs []string) {
	for part := range strings.SplitSeq(text, "&&") {
		part = strings.TrimSpace(part)
		m := aMatcher.FindStringSubmatch(part)
		if m == nil {
			if part != "" {
				differs = append(differs, "add the match: that means "+part+".")
			}
			continue
		}
		values := m[2:3]
		if m[3] != "" {
			values = m[2:4]
		}
		for _, v := range values {
			switch m[1] {
			case "Host":
				one.hosts = append(slices.Clone(one.hosts), v)
			case "Path":
				one.paths = append(slices.Clone(one.paths), v)
			case "PathPrefix":
				one.paths = append(slices.Clone(one.paths), pathUnder(v))
			case "Method":
				one.methods = append(slices.Clone(one.methods), v)
			}
		}
	}
	return differs
}
