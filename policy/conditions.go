package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weirhq/weir/identity"
)

// request is what conditions look at: a call under one reading of its path,
// brought into the spelling that rules are written in.
type request struct {
	call   *identity.Call
	caller *identity.Caller
	method string // upper case
	host   string // as identity.CleanHost spells it
	path   string // one of its readings
}

// miss says which condition did not hold.
type miss uint8

const (
	holds miss = iota
	missMethod
	missPath
	missHost
	missIP
	missTenant
	missPlan
	missHeader
)

var missWords = [...]string{"", "the method", "the path", "the host", "the address", "the tenant", "the plan", "a header"}

// conditions is compiled Conditions.
type conditions struct {
	methods []string
	paths   []pattern // most specific first
	hosts   []string  // exact, or ".example.com" for every name below
	ips     addresses
	tenants []string
	plans   []string
	headers []HeaderCondition
	given   bool // at least one condition
	early   bool // can be tried before the caller is looked up
}

// match reports whether all conditions hold, or the first that does not.
// Conditions stand in the order of their price.
func (c *conditions) match(q *request) miss {
	if why := c.matchTarget(q); why != holds {
		return why
	}
	return c.matchWho(q)
}

// matchTarget is match for what is asked for.
func (c *conditions) matchTarget(q *request) miss {
	switch {
	case len(c.methods) > 0 && !slices.Contains(c.methods, q.method):
		return missMethod
	case len(c.paths) > 0 && c.route(q.path) == nil:
		return missPath
	case len(c.hosts) > 0 && !c.matchHost(q.host):
		return missHost
	}
	return holds
}

// matchWho is match for who asks, and the header fields.
func (c *conditions) matchWho(q *request) miss {
	switch {
	case len(c.ips.lengths) > 0 && !c.ips.contains(q.caller.IP):
		return missIP
	case len(c.tenants) > 0 && !slices.Contains(c.tenants, q.caller.Tenant):
		return missTenant
	case len(c.plans) > 0 && !slices.Contains(c.plans, q.caller.Plan):
		return missPlan
	}
	for i := range c.headers {
		if !c.headers[i].match(q.call.Header) {
			return missHeader
		}
	}
	return holds
}

// asksWho reports whether matchWho has anything to look at.
func (c *conditions) asksWho() bool {
	return len(c.ips.lengths)+len(c.tenants)+len(c.plans)+len(c.headers) > 0
}

// route returns the most specific pattern that covers path, or nil.
func (c *conditions) route(path string) *pattern {
	for i := range c.paths {
		if c.paths[i].match(path) {
			return &c.paths[i]
		}
	}
	return nil
}

func (c *conditions) matchHost(host string) bool {
	for _, h := range c.hosts {
		if h == host || h[0] == '.' && strings.HasSuffix(host, h) && len(host) > len(h) {
			return true
		}
	}
	return false
}

func (h *HeaderCondition) match(fields identity.Header) bool {
	if fields == nil {
		return false
	}
	values := fields.Values(h.Name)
	if len(h.Values) == 0 {
		return len(values) > 0
	}
	for _, v := range values {
		if slices.Contains(h.Values, strings.TrimSpace(v)) {
			return true
		}
	}
	return false
}

// compileConditions reads conditions and notes what is wrong with them.
func compileConditions(in *Conditions, field string, faults *faults) conditions {
	c := conditions{tenants: in.Tenants, plans: in.Plans, headers: in.Headers, ips: compileAddresses(in.IPs)}
	for i, m := range in.Methods {
		if problem := checkMethod(m); problem != "" {
			faults.addAt(field+".methods", i, quoted(m, problem))
			continue
		}
		c.methods = append(c.methods, m)
		if m == "GET" {
			c.methods = append(c.methods, "HEAD")
		}
	}
	for i, s := range in.Paths {
		p, problem := compilePattern(s)
		if problem != "" {
			faults.addAt(field+".paths", i, quoted(s, problem))
			continue
		}
		c.paths = append(c.paths, p)
	}
	slices.SortStableFunc(c.paths, func(a, b pattern) int { return moreSpecific(&a, &b) })
	for i, h := range in.Hosts {
		if problem := checkHost(h); problem != "" {
			faults.addAt(field+".hosts", i, quoted(h, problem))
			continue
		}
		c.hosts = append(c.hosts, strings.TrimPrefix(h, "*"))
	}
	for i, p := range in.IPs {
		if !p.IsValid() {
			faults.addAt(field+".ips", i, "is no address or prefix")
		}
	}
	for i := range in.Headers {
		if in.Headers[i].Name == "Host" { // net/http takes it out of the header
			faults.addAt(field+".headers", i, "names Host, which is never among the headers; write hosts")
		}
	}
	c.given = len(in.Methods)+len(in.Paths)+len(in.Hosts)+len(in.IPs)+len(in.Tenants)+len(in.Plans)+len(in.Headers) > 0
	c.early = len(in.Tenants)+len(in.Plans) == 0
	return c
}

func checkMethod(m string) string {
	switch {
	case m == "":
		return "is empty"
	case m != strings.ToUpper(m):
		return "must be upper case: " + strings.ToUpper(m)
	case strings.ContainsFunc(m, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
		return "is not a method; methods are words such as GET"
	}
	return ""
}

func checkHost(h string) string {
	name := strings.TrimPrefix(h, "*.")
	switch {
	case name == "":
		return "is empty"
	case name != strings.ToLower(name):
		return "must be lower case: " + strings.ToLower(h)
	case strings.Contains(name, "*"):
		return "has a * that is not the first label; *.example.com is every name below example.com"
	case strings.ContainsAny(name, "/?#@ "):
		return "is not a host; write the name alone, such as api.example.com"
	case strings.HasSuffix(name, "."):
		return "ends in a dot; hosts are compared without it"
	case strings.HasPrefix(name, "["):
		return "is an address in brackets; write it without"
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	if strings.Contains(name, ":") {
		return "has a port; hosts are compared without it"
	}
	return ""
}
