// Package migrate reads the rate limits of other programs and writes the nearest
// policy, with what differs beside each rule. It reads what people have in their
// files, not all that those programs can do; what it does not carry over it says.
//
//	nginx.conf │ envoyproxy/ratelimit │ Kong │ Traefik │ limitador → []rule → policy text
package migrate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Kinds are what can be read.
var Kinds = []string{"nginx", "envoy", "kong", "traefik", "limitador"}

// Policy reads the text of a file called name, which is of the kind, or of the
// kind it looks like if kind is "". It returns the text of a policy. The error
// says what could not be read, with its line where there is one.
func Policy(name, kind string, text []byte) ([]byte, error) {
	if kind == "" {
		if kind = looksLike(text); kind == "" {
			return nil, fmt.Errorf("%s looks like none of %s", name, strings.Join(Kinds, ", "))
		}
	}
	r := &result{file: name}
	var err error
	switch kind {
	case "nginx":
		err = r.nginx(text)
	case "envoy":
		err = r.envoy(text)
	case "kong":
		err = r.kong(text)
	case "traefik":
		err = r.traefik(text)
	case "limitador":
		err = r.limitador(text)
	default:
		return nil, fmt.Errorf("unknown kind %q; there are %s", kind, strings.Join(Kinds, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r.text(kind), nil
}

// looksLike returns the kind of a text, or "".
func looksLike(text []byte) string {
	has := func(words ...string) bool {
		for _, w := range words {
			if bytes.Contains(text, []byte(w)) {
				return true
			}
		}
		return false
	}
	switch {
	case has("limit_req_zone", "limit_req ", "limit_conn"):
		return "nginx"
	case has("max_value:"):
		return "limitador"
	case has("descriptors:"):
		return "envoy"
	case has("rate-limiting", "_format_version"):
		return "kong"
	case has("rateLimit:", "ratelimit.average", "inFlightReq", "inflightreq"):
		return "traefik"
	}
	return ""
}

// rule is one rule of the policy to be.
type rule struct {
	name    string
	from    string   // what it was, on one line
	differs []string // what is not the same

	methods, paths, hosts, ips []string
	headers                    [][2]string
	notPaths                   []string
	key                        []string
	limit                      string
	shadow                     bool
}

// result is what a file holds.
type result struct {
	file    string
	rules   []rule
	general []string // differences of everything
	left    []string // what was not carried over
	names   map[string]int
}

func (r *result) add(one rule) {
	if r.names == nil {
		r.names = map[string]int{}
	}
	one.name = plainName(one.name)
	if r.names[one.name]++; r.names[one.name] > 1 {
		one.name += "-" + strconv.Itoa(r.names[one.name])
	}
	if len(one.key) == 0 {
		one.key = []string{"all"}
	}
	for i, part := range one.key {
		if strings.EqualFold(part, "header:host") { // no field to Weir
			one.key[i] = "host"
		}
	}
	r.rules = append(r.rules, one)
}

func (r *result) leave(format string, args ...any) {
	r.left = append(r.left, fmt.Sprintf(format, args...))
}

// plainName makes a rule's name of text.
func plainName(s string) string {
	s = strings.Trim(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			return c
		}
		return '-'
	}, s), "-")
	for strings.Contains(s, "--") {
		s = strings.ReplaceAll(s, "--", "-")
	}
	if s == "" {
		s = "limit"
	}
	return s[:min(len(s), 56)]
}

// text writes the policy.
func (r *result) text(kind string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# From %s (%s). Look at what differs, then weir policy check, then weir replay.\n", r.file, kind)
	for _, d := range r.general {
		comment(&b, "", "Differs: "+d)
	}
	for _, d := range r.left {
		comment(&b, "", "Not carried over: "+d)
	}
	if len(r.rules) == 0 {
		b.WriteString("limits: []\n")
		return b.Bytes()
	}
	b.WriteString("limits:\n")
	for i := range r.rules {
		r.rules[i].write(&b)
	}
	return b.Bytes()
}

func (one *rule) write(b *bytes.Buffer) {
	if one.from != "" {
		comment(b, "  ", one.from)
	}
	for _, d := range one.differs {
		comment(b, "  ", "Differs: "+d)
	}
	fmt.Fprintf(b, "  - name: %s\n", one.name)
	var match []string
	list := func(field string, values []string) {
		if len(values) > 0 {
			match = append(match, field+": "+flow(values))
		}
	}
	list("methods", one.methods)
	list("paths", one.paths)
	list("hosts", one.hosts)
	list("ips", one.ips)
	if len(one.headers) > 0 {
		var fields []string
		for _, h := range one.headers {
			fields = append(fields, strconv.Quote(h[0])+": ["+strconv.Quote(h[1])+"]")
		}
		match = append(match, "headers: {"+strings.Join(fields, ", ")+"}")
	}
	if len(one.notPaths) > 0 {
		match = append(match, "not: {paths: "+flow(one.notPaths)+"}")
	}
	if len(match) > 0 {
		fmt.Fprintf(b, "    match: {%s}\n", strings.Join(match, ", "))
	}
	fmt.Fprintf(b, "    key: %s\n    limit: %s\n", flow(one.key), one.limit)
	if one.shadow {
		b.WriteString("    mode: shadow\n")
	}
}

// flow writes a list in one line.
func flow(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		if quoted[i] = v; plainName(v) != v || v == "" {
			quoted[i] = strconv.Quote(v)
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// comment writes text as comment lines of a bearable width.
func comment(b *bytes.Buffer, indent, text string) {
	line := ""
	flush := func() {
		if line != "" {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
		}
	}
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+len(word) > 100 {
			flush()
			line = " "
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}

// perPeriod returns N/PERIOD for a count in so many seconds.
func perPeriod(n, seconds int64) string {
	for _, p := range []struct {
		seconds int64
		name    string
	}{{604800, "week"}, {86400, "day"}, {3600, "h"}, {60, "min"}, {1, "s"}} {
		if seconds == p.seconds {
			return fmt.Sprintf("%d/%s", n, p.name)
		}
		if seconds%p.seconds == 0 {
			return fmt.Sprintf("%d/%d%s", n, seconds/p.seconds, p.name)
		}
	}
	return fmt.Sprintf("%d/s", n)
}

// pathUnder returns the pattern of a path and all below it.
func pathUnder(prefix string) string {
	prefix = strings.TrimRight(prefix, "/")
	return prefix + "/**"
}
