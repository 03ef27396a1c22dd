package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
)

// everyPath is the route of a rule that has no paths.
const everyPath = "/**"

// checkKey checks the key parts and works out what follows from them.
func (r *rule) checkKey(field string, f *faults) {
	switch {
	case len(r.Key) == 0:
		f.add(field+".key", "is missing; say what callers are told apart by, such as [ip], or [all] for everybody together")
		return
	case len(r.Key) > identity.MaxParts:
		f.add(field+".key", fmt.Sprintf("has more than %d parts", identity.MaxParts))
		return
	}
	parts := make([]string, len(r.Key))
	r.tenantPart = -1
	for i, part := range r.Key {
		parts[i] = part.String()
		switch {
		case part == identity.Part{}:
			f.addAt(field+".key", i, "is empty; use ParsePart")
		case slices.Contains(parts[:i], parts[i]):
			f.addAt(field+".key", i, quoted(parts[i], "stands twice in the key"))
		case parts[i] == "all" && len(r.Key) > 1:
			f.addAt(field+".key", i, quoted("all", "stands for everybody together and goes with no other part"))
		}
		switch parts[i] {
		case "tenant":
			r.tenantPart = i
		case "route":
			r.routed = true
		}
	}
	// A switch may put a shadow rule in force, so that what shows is not asked of
	// the mode the rule was written with.
	enforced := r.Rule
	enforced.Mode = Enforce
	r.expose = enforced.Exposed()
	// The parts are in the space, since a key holds only their values: a rule
	// that counted by tenant and now counts by user must not go on with the
	// balance of a tenant for a user of the same name.
	key := "/" + strings.Join(parts, ",")
	r.space, r.trySpace = ruleSpace+r.Name+key, trySpace+r.Name+key
}

func (r *rule) routeOf(path string) string {
	if p := r.match.route(path); p != nil {
		return p.text
	}
	return everyPath
}

// group is what the balance may share a cluster slot with: the tenant in its
// key, else the first part. It must follow from the key alone, or one balance
// would live in several slots. identity.AppendKey writes each part as one byte
// for its kind, its length in decimal, a colon and the value.
func (r *rule) group(key string) string {
	if len(r.Key) == 1 {
		return key
	}
	rest := key
	for i := 0; ; i++ {
		colon := strings.IndexByte(rest, ':')
		length := 0
		for _, c := range []byte(rest[1:colon]) {
			length = length*10 + int(c-'0')
		}
		part := rest[:colon+1+length]
		if i == max(r.tenantPart, 0) {
			return part
		}
		rest = rest[len(part):]
	}
}

// Balances returns charges on the balances of a rule for the given key parts,
// such as {"ip": "192.0.2.1"}: one for every algorithm and period that the rule
// may use, with those of its try. own are limits that tenants have of their own on
// the rule, as ParseLimit reads them; those that requests were decided under are
// known. network cuts an address as the policy's callers are. The charges are for resets, blocks and peeks, one bill each. The
// error is an *weir.InputError that names what is wrong.
func (p *Policy) Balances(name string, parts map[string]string, network func(netip.Addr) netip.Prefix, own ...string) ([]weir.Charge, error) {
	i, ok := p.byName[name]
	if !ok {
		return nil, &weir.InputError{Field: "rule", Problem: fmt.Sprintf("there is no rule %q", name)}
	}
	r := &p.rules[i]
	parts, err := r.given(parts)
	if err != nil {
		return nil, err
	}
	text, err := identity.AppendGiven(nil, r.Key, parts, network)
	if err != nil {
		var wrong *identity.ConfigError
		if errors.As(err, &wrong) {
			return nil, &weir.InputError{Field: wrong.Field, Problem: wrong.Problem}
		}
		return nil, err
	}
	key := string(text)
	var charges []weir.Charge
	seen := map[string]bool{}
	add := func(l weir.Limit, space string) {
		if l == (weir.Limit{}) || l.IsUnlimited() || seen[space+balanceOf(l)] {
			return
		}
		seen[space+balanceOf(l)] = true
		charges = append(charges, weir.Charge{Key: key, Limit: l, Cost: 1, Space: space, Group: r.group(key)})
	}
	add(r.Limit, r.space)
	for _, plan := range sortedKeys(r.Plans) {
		add(r.Plans[plan], r.space)
	}
	for _, text := range own {
		if o := p.override(text); o.sound {
			add(o.limit, r.space)
		}
	}
	p.overrides.Range(func(_, v any) bool {
		if o := v.(*override); o.sound {
			add(o.limit, r.space)
		}
		return true
	})
	add(r.Try, r.trySpace)
	return charges, nil
}

// OfTry reports whether a charge of a policy is a rule's try.
func OfTry(c weir.Charge) bool { return strings.HasPrefix(c.Space, trySpace) }

// given returns parts with what only the rule knows: a route is one of its
// patterns, or a path under one; a path is under one; and whoever has no value
// has a balance only where the address takes its place.
func (r *rule) given(parts map[string]string) (map[string]string, error) {
	parts = maps.Clone(parts)
	for _, p := range r.Key {
		name := p.String()
		wrong := func(problem string) error { return &weir.InputError{Field: "parts." + name, Problem: problem} }
		value, ok := parts[name]
		kind := strings.TrimPrefix(name, "fold:")
		switch {
		case kind == "api_key" && ok && value != "" && value != identity.NoValue:
			if parts[name] = strings.ToLower(strings.TrimPrefix(value, "sha256:")); !isSum(parts[name]) {
				return nil, wrong("must be the SHA-256 of a key, in 64 hex digits as sha256sum prints them; keys are counted by it")
			}
		case kind != "route" && kind != "path":
			if value == identity.NoValue && r.OnMissing != UseIP {
				return nil, wrong("is never missing here: the rule does not count callers without it")
			}
		case !ok && kind == "route":
			return nil, wrong("is missing; the rule's are " + r.routes())
		case ok && value == identity.NoValue:
			return nil, wrong("cannot be without a value")
		case ok && kind == "route" && r.hasRoute(value):
		case ok && value != "":
			path := identity.CleanPath(value)
			if len(r.match.paths) > 0 && r.match.route(path) == nil {
				return nil, wrong(quoted(value, "is under none of the rule's paths; they are "+r.routes()))
			}
			if kind == "route" {
				parts[name] = r.routeOf(path)
			}
		}
	}
	return parts, nil
}

// isSum reports whether s is a SHA-256 in hex, in lower case.
func isSum(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

func (r *rule) hasRoute(text string) bool {
	if len(r.match.paths) == 0 {
		return text == everyPath
	}
	return slices.ContainsFunc(r.match.paths, func(p pattern) bool { return p.text == text })
}

// routes lists the routes of a rule, for whoever named another.
func (r *rule) routes() string {
	if len(r.match.paths) == 0 {
		return everyPath
	}
	var list []string
	for _, p := range r.match.paths {
		list = append(list, p.text)
	}
	slices.Sort(list)
	if most := 10; len(list) > most {
		list = append(list[:most], "…")
	}
	return strings.Join(list, ", ")
}

// balanceOf returns what, beside space and key, a balance under l belongs to:
// the limit without its numbers.
func balanceOf(l weir.Limit) string {
	_, text, _ := strings.Cut(l.String(), "/")
	words := slices.DeleteFunc(strings.Fields(text), func(w string) bool {
		return strings.HasPrefix(w, "burst=") || strings.HasPrefix(w, "on_store_failure=")
	})
	return strings.Join(words, " ")
}
