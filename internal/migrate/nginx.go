package migrate

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// zone is what limit_req_zone declares.
type zone struct {
	key  string
	rate string // N/PERIOD
}

// scope is where a directive stands.
type scope struct {
	hosts    []string
	notes    []string // on hosts that are no patterns
	location *location
	others   []location // of the same server, those within each other too
	limits   []directive
	dryRun   bool
}

// location is a location of a server.
type location struct {
	path    string
	exact   bool
	regexp  bool
	limited bool // it has limits of its own, and so inherits none, or only tries those it inherits
	is      *directive
	within  []*directive // locations that this one stands in
}

func (r *result) nginx(text []byte) error {
	list, err := parseNginx(text)
	if err != nil {
		return err
	}
	r.general = []string{
		"nginx counts in the shared memory of one machine, Weir in the store that the policy names.",
		"nginx answers 503 unless limit_req_status says otherwise, Weir 429.",
		"a zone that is used in several places is one counter in nginx; here each rule counts by itself.",
		"where several limits apply, what one refuses is charged to none in Weir.",
	}
	zones := map[string]zone{}
	r.nginxZones(list, zones)
	r.nginxScope(list, scope{}, zones)
	return nil
}

func (r *result) nginxZones(list []directive, zones map[string]zone) {
	for i := range list {
		d := &list[i]
		switch d.name() {
		case "limit_req_zone":
			z, name := zone{}, ""
			for _, w := range d.words[1:] {
				switch {
				case strings.HasPrefix(w, "zone="):
					name, _, _ = strings.Cut(w[5:], ":")
				case strings.HasPrefix(w, "rate="):
					z.rate = nginxRate(w[5:])
				case w == "sync":
				default:
					z.key = w
				}
			}
			if z.rate == "" {
				r.leave("line %d: %s (its rate is not N r/s or N r/m)", d.line, d.text())
				continue
			}
			zones[name] = z
		case "include":
			if file := d.words[len(d.words)-1]; len(d.words) > 1 && !harmlessInclude(file) {
				r.leave("line %d: %s (give that file with this one)", d.line, d.text())
			}
		case "limit_conn_zone", "limit_conn":
			r.leave("line %d: %s. Weir limits requests over time, not connections at once", d.line, d.text())
		}
		r.nginxZones(d.block, zones)
	}
}

// harmlessInclude reports whether a file is one of those that come with nginx and
// limit nothing.
func harmlessInclude(file string) bool {
	file = path.Base(file)
	return file == "mime.types" || file == "fastcgi.conf" || strings.HasSuffix(file, "_params")
}

func nginxRate(s string) string {
	for suffix, period := range map[string]string{"r/s": "s", "r/m": "min"} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			if _, err := strconv.ParseUint(n, 10, 32); err == nil {
				return n + "/" + period
			}
		}
	}
	return ""
}

func (r *result) nginxScope(list []directive, s scope, zones map[string]zone) {
	var own []directive
	for _, d := range list {
		switch d.name() {
		case "limit_req":
			own = append(own, d)
		case "limit_req_dry_run":
			s.dryRun = len(d.words) > 1 && d.words[1] == "on"
		case "server_name":
			s.hosts, s.notes = nginxHosts(d.words[1:])
		}
	}
	if len(own) > 0 { // limits are inherited only where there are none
		s.limits = own
	}
	if s.location == nil {
		s.others = locationsIn(list, nil)
	}
	for i := range list {
		switch d := &list[i]; d.name() {
		case "http", "server":
			r.nginxScope(d.block, s, zones)
		case "location":
			l, below := locationOf(d), s
			below.location = &l
			r.nginxScope(d.block, below, zones)
		}
	}
	if hasBlock(list, "server", "http") || s.location != nil && !s.location.limited {
		return // what applies here stands further out or in, and was written there
	}
	for i := range s.limits {
		r.nginxLimit(&s.limits[i], &s, zones)
	}
}

func hasBlock(list []directive, names ...string) bool {
	for _, d := range list {
		for _, n := range names {
			if d.name() == n {
				return true
			}
		}
	}
	return false
}

// nginxHosts returns the names of a server as patterns, and notes on those that are
// none.
func nginxHosts(names []string) (hosts, notes []string) {
	for _, h := range names {
		below, all := strings.CutPrefix(h, ".")
		switch {
		case h == "_" || h == "":
		case strings.HasPrefix(h, "~"), strings.Contains(strings.TrimPrefix(h, "*."), "*"):
			notes = append(notes, "add to the match: the hosts that "+h+" means.")
		case all:
			hosts = append(hosts, below, "*."+below)
		default:
			hosts = append(hosts, h)
		}
	}
	return hosts, notes
}

// locationsIn returns the locations of a list and those within them.
func locationsIn(list []directive, within []*directive) (all []location) {
	for i := range list {
		if d := &list[i]; d.name() == "location" {
			l := locationOf(d)
			l.within = within
			all = append(append(all, l), locationsIn(d.block, append(slices.Clip(within), d))...)
		}
	}
	return all
}

func locationOf(d *directive) location {
	l := location{is: d}
	words := d.words[1:]
	if len(words) > 1 {
		l.exact, l.regexp = words[0] == "=", strings.HasPrefix(words[0], "~")
		words = words[1:]
	}
	if len(words) > 0 {
		l.path = words[0]
	}
	l.regexp = l.regexp || strings.HasPrefix(l.path, "@")
	for _, inner := range d.block {
		l.limited = l.limited || inner.name() == "limit_req" || inner.name() == "limit_req_dry_run"
	}
	return l
}

func (l *location) pattern() string {
	if l.exact {
		return l.path
	}
	return pathUnder(l.path)
}

// takesFrom reports whether l, a regular expression, takes requests away from the limit
// of s: it stands over the prefixes of its server, but for exact ones and ^~.
func (l *location) takesFrom(s *scope) bool {
	if s.location == nil {
		return l.limited
	}
	inherits := !l.limited && slices.Contains(l.within, s.location.is)
	return !inherits && l.is != s.location.is && !s.location.exact && s.location.is.words[1] != "^~"
}

// nginxLimit writes one limit_req where it applies.
func (r *result) nginxLimit(d *directive, s *scope, zones map[string]zone) {
	one := rule{from: fmt.Sprintf("line %d: %s", d.line, d.text()), hosts: s.hosts, differs: slices.Clone(s.notes), shadow: s.dryRun}
	burst, nodelay, delay := int64(0), false, ""
	for _, w := range d.words[1:] {
		switch {
		case strings.HasPrefix(w, "zone="):
			one.name = w[5:]
		case strings.HasPrefix(w, "burst="):
			burst, _ = strconv.ParseInt(w[6:], 10, 32)
		case w == "nodelay":
			nodelay = true
		case strings.HasPrefix(w, "delay="):
			nodelay, delay = true, w[6:]
		}
	}
	z, ok := zones[one.name]
	if !ok {
		r.leave("line %d: %s (no limit_req_zone declares its zone)", d.line, d.text())
		return
	}
	one.from += ", where the zone is " + z.key + " rate=" + strings.Replace(strings.Replace(z.rate, "/s", "r/s", 1), "/min", "r/m", 1)
	if s.location != nil {
		if s.location.regexp {
			r.leave("line %d: %s in location %s (a pattern of Weir is no regular expression; add the rule with the paths it means)", d.line, d.text(), s.location.path)
			return
		}
		if s.location.path != "/" || s.location.exact {
			one.paths = []string{s.location.pattern()}
		}
		if !s.location.exact && !strings.HasSuffix(s.location.path, "/") {
			one.differs = append(one.differs, fmt.Sprintf("nginx's location %s also takes paths such as %sx.", s.location.path, s.location.path))
		}
	}
	var taken []string // by locations that are regular expressions
	for i := range s.others {
		o := &s.others[i]
		at := "/"
		if s.location != nil {
			at = s.location.path
		}
		if o.regexp && !strings.HasPrefix(o.path, "@") && o.takesFrom(s) {
			taken = append(taken, o.path)
		}
		if o.regexp || s.location == nil && !o.limited || s.location != nil && (o.path == at || !strings.HasPrefix(o.path, at)) {
			continue
		}
		if s.location != nil && !o.limited && slices.Contains(o.within, s.location.is) {
			continue // it inherits
		}
		one.notPaths = append(one.notPaths, o.pattern())
	}
	if len(taken) > 0 {
		one.differs = append(one.differs, "nginx serves what matches "+strings.Join(taken, " or ")+" by a location without this limit: add the paths it means to match.not.")
	}
	one.limit = z.rate
	switch {
	case nodelay || burst == 0:
		one.limit += fmt.Sprintf(" burst=%d", burst+1)
	default:
		one.limit += fmt.Sprintf(" algorithm=leaky_bucket burst=%d", burst)
	}
	if delay != "" {
		one.differs = append(one.differs, "nginx slows requests down past delay="+delay+"; here all of the burst go at once.")
	}
	var notes []string
	one.key, notes = nginxKey(z.key)
	one.differs = append(one.differs, notes...)
	r.add(one)
}

var nginxVariable = regexp.MustCompile(`\$\{?([a-z0-9_]+)\}?`)

// nginxKey returns the key parts that a zone's key stands for.
func nginxKey(text string) (parts, notes []string) {
	rest := nginxVariable.ReplaceAllString(text, "")
	for _, m := range nginxVariable.FindAllStringSubmatch(text, -1) {
		name := m[1]
		switch {
		case name == "binary_remote_addr" || name == "remote_addr":
			parts = append(parts, "ip")
		case name == "server_name" || name == "host" || name == "http_host":
			parts = append(parts, "host")
		case name == "uri" || name == "request_uri" || name == "document_uri":
			parts = append(parts, "path")
			if name == "request_uri" {
				notes = append(notes, "$request_uri has the query, path has not.")
			}
		case name == "request_method":
			parts = append(parts, "method")
		case name == "remote_user":
			parts = append(parts, "user")
			notes = append(notes, "user is who a trusted peer or a token names; see user: in weir policy init.")
		case strings.HasPrefix(name, "http_"):
			parts = append(parts, "header:"+strings.ReplaceAll(name[5:], "_", "-"))
		case strings.HasPrefix(name, "arg_"):
			parts = append(parts, "query:"+name[4:])
		case strings.HasPrefix(name, "cookie_"):
			parts = append(parts, "cookie:"+name[7:])
		default:
			parts = append(parts, "attr:"+name)
			notes = append(notes, "$"+name+" is a variable of your configuration: put in its place what it is made of. Where nginx finds it empty it does not limit; here add on_missing: skip.")
		}
	}
	if len(parts) == 0 && rest != "" {
		return []string{"all"}, nil
	}
	return parts, notes
}
