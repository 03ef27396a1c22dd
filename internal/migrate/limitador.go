package migrate

import (
	"fmt"
	"regexp"
	"strings"
)

type limitadorLimit struct {
	Namespace  string   `yaml:"namespace"`
	Name       string   `yaml:"name"`
	ID         string   `yaml:"id"`
	MaxValue   int64    `yaml:"max_value"`
	Seconds    int64    `yaml:"seconds"`
	Conditions []string `yaml:"conditions"`
	Variables  []string `yaml:"variables"`
}

func (r *result) limitador(text []byte) error {
	var lists []*[]limitadorLimit
	if err := documents(text, func() any { l := &[]limitadorLimit{}; lists = append(lists, l); return l }); err != nil {
		return err
	}
	r.general = []string{"a window of limitador begins with its first request; one of Weir is a multiple of its length since 1970."}
	for _, list := range lists {
		for i := range *list {
			r.limitadorLimit(&(*list)[i])
		}
	}
	return nil
}

// aCondition matches X == 'Y', where X is a name or descriptors[0]['name'].
var aCondition = regexp.MustCompile(`^\s*(?:descriptors\[\d+\]\.?)?(?:\[['"])?([\w.:-]+?)(?:['"]\])?\s*==\s*['"]([^'"]*)['"]\s*$`)

var aVariable = regexp.MustCompile(`^\s*(?:descriptors\[\d+\]\.?)?(?:\[['"])?([\w.:-]+?)(?:['"]\])?\s*$`)

func (r *result) limitadorLimit(l *limitadorLimit) {
	one := rule{name: l.Name, from: fmt.Sprintf("namespace %s: %d in %d seconds", l.Namespace, l.MaxValue, l.Seconds)}
	if one.name == "" {
		one.name = l.Namespace + "-" + l.ID
	}
	if l.Seconds < 1 || l.MaxValue < 0 {
		r.leave("%s", one.from)
		return
	}
	one.limit = perPeriod(l.MaxValue, l.Seconds) + " algorithm=fixed_window"
	for _, c := range l.Conditions {
		one.from += ", if " + c
		m := aCondition.FindStringSubmatch(c)
		if m == nil || !wellKnown(m[1], m[2], &one) {
			one.differs = append(one.differs, "add the match: that means "+c+".")
		}
	}
	for _, v := range l.Variables {
		one.from += ", for each " + v
		m := aVariable.FindStringSubmatch(v)
		if m == nil || !wellKnown(m[1], "", &one) {
			name := plainName(strings.TrimPrefix(v, "descriptors[0]"))
			one.key = append(one.key, "attr:"+name)
			one.differs = append(one.differs, "put what "+v+" is of a request in the place of attr:"+name+".")
		}
	}
	r.add(one)
}

// wellKnown adds a condition, or without a value a key part, whose name says
// what it is.
func wellKnown(name, value string, one *rule) bool {
	name = strings.TrimPrefix(strings.ToLower(name), "request.")
	switch strings.TrimPrefix(name, "req.") {
	case "method", "http.method":
		if value != "" {
			one.methods = append(one.methods, strings.ToUpper(value))
		} else {
			one.key = append(one.key, "method")
		}
	case "path", "url_path", "http.path":
		if value != "" {
			one.paths = append(one.paths, value)
		} else {
			one.key = append(one.key, "path")
		}
	case "host", "http.host":
		if value != "" {
			one.hosts = append(one.hosts, value)
		} else {
			one.key = append(one.key, "host")
		}
	case "remote_address", "remote_ip", "source.address", "ip":
		if value != "" {
			one.ips = append(one.ips, value)
		} else {
			one.key = append(one.key, "ip")
		}
	default:
		return false
	}
	return true
}
