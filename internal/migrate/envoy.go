package migrate

import (
	"fmt"
	"net/netip"
	"strings"
)

// envoyFile is a file of envoyproxy/ratelimit.
type envoyFile struct {
	Domain      string            `yaml:"domain"`
	Descriptors []envoyDescriptor `yaml:"descriptors"`
}

type envoyDescriptor struct {
	Key       string `yaml:"key"`
	Value     string `yaml:"value"`
	RateLimit *struct {
		Name            string `yaml:"name"`
		Unit            string `yaml:"unit"`
		RequestsPerUnit int64  `yaml:"requests_per_unit"`
		Unlimited       bool   `yaml:"unlimited"`
		Replaces        []any  `yaml:"replaces"`
	} `yaml:"rate_limit"`
	ShadowMode  bool              `yaml:"shadow_mode"`
	Descriptors []envoyDescriptor `yaml:"descriptors"`
}

func (r *result) envoy(text []byte) error {
	var files []*envoyFile
	if err := documents(text, func() any { f := &envoyFile{}; files = append(files, f); return f }); err != nil {
		return err
	}
	r.general = []string{
		"weir serve --rls-config reads such files as they stand and answers as that server does, with no change in Envoy. This policy is for the other doors.",
		"which descriptors a request has is said in Envoy's routes; where a rule here cannot know, it says so.",
		"that server counts refused requests too, Weir only admitted ones.",
	}
	for _, f := range files {
		for i := range f.Descriptors {
			r.envoyDescriptor(f.Domain, &f.Descriptors[i], rule{})
		}
	}
	return nil
}

// units are the periods of envoyproxy/ratelimit.
var units = map[string]string{
	"second": "s", "minute": "min", "hour": "h", "day": "day", "week": "week", "month": "month tz=UTC", "year": "year tz=UTC",
}

// envoyDescriptor writes the limits of a descriptor and what stands below it.
// so far holds what the entries above say.
func (r *result) envoyDescriptor(domain string, d *envoyDescriptor, sofar rule) {
	one := sofar
	one.key = append([]string(nil), sofar.key...)
	one.differs = append([]string(nil), sofar.differs...)
	one.headers = append([][2]string(nil), sofar.headers...)
	one.name += "-" + d.Key
	one.from = strings.TrimPrefix(sofar.from+", "+d.Key, ", ")
	if d.Value != "" {
		one.name += "-" + d.Value
		one.from += "=" + d.Value
	}
	envoyEntry(d, &one)
	for i := range d.Descriptors {
		r.envoyDescriptor(domain, &d.Descriptors[i], one)
	}
	if d.RateLimit == nil {
		return
	}
	period, ok := units[strings.ToLower(d.RateLimit.Unit)]
	switch {
	case d.RateLimit.Unlimited:
		one.limit = "unlimited"
		one.differs = append(one.differs, "other rules that match still count; to let such requests pass, put them under exempt:.")
	case ok:
		count, zone, _ := strings.Cut(period, " ")
		one.limit = strings.TrimSpace(fmt.Sprintf("%d/%s algorithm=fixed_window %s", d.RateLimit.RequestsPerUnit, count, zone))
	default:
		r.leave("%s: a limit per %q", one.from, d.RateLimit.Unit)
		return
	}
	if len(d.RateLimit.Replaces) > 0 {
		one.differs = append(one.differs, "it replaces other limits there; here all that match apply.")
	}
	one.from = "domain " + domain + ": " + one.from
	one.name = strings.TrimPrefix(domain+one.name, "-")
	one.shadow = d.ShadowMode
	r.add(one)
}

// envoyEntry adds an entry of a descriptor: a value is a condition, none a part
// of the key.
func envoyEntry(d *envoyDescriptor, one *rule) {
	name := strings.ToLower(d.Key)
	if d.Value == "" {
		switch name {
		case "remote_address", "masked_remote_address":
			one.key = append(one.key, "ip")
		case "path", ":path":
			one.key = append(one.key, "path")
		case "method", ":method":
			one.key = append(one.key, "method")
		case "host", "authority", ":authority":
			one.key = append(one.key, "host")
		default:
			if strings.Contains(name, "-") {
				one.key = append(one.key, "header:"+d.Key)
				return
			}
			one.key = append(one.key, "attr:"+plainName(d.Key))
			one.differs = append(one.differs, "what "+d.Key+" is of a request stands in Envoy's routes; put it in the place of attr:"+plainName(d.Key)+".")
		}
		return
	}
	switch {
	case name == "remote_address":
		if _, err := netip.ParsePrefix(d.Value); err == nil {
			one.ips = []string{d.Value}
			return
		}
		if _, err := netip.ParseAddr(d.Value); err == nil {
			one.ips = []string{d.Value}
			return
		}
	case (name == "path" || name == ":path") && strings.HasPrefix(d.Value, "/"):
		if star, ok := strings.CutSuffix(d.Value, "/*"); ok {
			one.paths = []string{star + "/**"}
			return
		}
		if !strings.Contains(d.Value, "*") {
			one.paths = []string{d.Value}
			return
		}
	case name == "method" || name == ":method":
		one.methods = []string{strings.ToUpper(d.Value)}
		return
	case name == "host" || name == ":authority":
		one.hosts = []string{d.Value}
		return
	case strings.Contains(name, "-") && !strings.Contains(d.Value, "*"):
		one.headers = append(one.headers, [2]string{d.Key, d.Value})
		return
	}
	one.differs = append(one.differs, "it is for requests that Envoy's routes give "+d.Key+"="+d.Value+"; add the match: that they have.")
}
