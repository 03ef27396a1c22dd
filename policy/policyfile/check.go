package policyfile

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/policy"
)

// Finding is something about a file that is allowed, and worth a look.
type Finding struct {
	File         string
	Line, Column int
	Text         string
}

// String returns FILE:LINE:COLUMN: text.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text)
}

// Check returns what is most likely not meant, in the order of the file.
func (f *File) Check() []Finding {
	var out []Finding
	add := func(field, format string, args ...any) {
		out = append(out, f.finding(field, fmt.Sprintf(format, args...)))
	}
	for _, finding := range f.Policy.Check() {
		add(finding.Field, "%s", finding.Text)
	}
	f.checkCallers(add)
	f.checkKeys(add)
	f.checkExempt(add)
	f.checkTrust(add)
	f.checkSecrets(add)
	f.checkDoors(add)
	if f.Store.URL == "memory" && f.MaxOvershoot > 0 {
		add("max_overshoot", "max_overshoot does nothing with store: memory, where no decision makes a trip")
	}
	if f.Store.URL == "memory" && f.Regions.Name != "" {
		add("regions", "regions do nothing with store: memory, which no other region can reach")
	}
	f.checkShares(add)
	if f.Store.URL == "memory" && f.Events.RedisStream != "" {
		add("events", "events go to a stream in Redis, and the store is memory; write file: instead, or name a store in Redis")
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return out
}

func (f *File) finding(field, text string) Finding {
	m := placeOf(f.places, field)
	return Finding{f.Name, m.line, m.column, text}
}

// checkCallers finds rules that hang on something that nobody can have.
func (f *File) checkCallers(add func(field, format string, args ...any)) {
	for i, r := range f.Policy.Rules() {
		for j, part := range r.Key {
			field := fmt.Sprintf("limits[%d].key[%d]", i, j)
			switch name := strings.TrimPrefix(part.String(), "fold:"); {
			case f.APIKeys.Header == "" && (name == "api_key" || name == "tenant" || name == "plan"):
				add(field, "%s is always missing: the file has no api_keys", name)
			case f.User.Header == "" && len(f.User.JWT.KeyFiles) == 0 && name == "user":
				add(field, "user is always missing: the file has no user")
			}
		}
	}
	if f.APIKeys.Redis { // there may be plans and tenants that the file does not know
		return
	}
	plans, tenants := f.known()
	unknown := func(kind, name, field string, known []string) {
		if slices.Contains(known, name) {
			return
		}
		hint := ""
		if near := nearest(name, known); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		add(field, "%s %q is nobody's in this file%s", kind, clip(name), hint)
	}
	for i, r := range f.Policy.Rules() {
		at := fmt.Sprintf("limits[%d]", i)
		for plan := range r.Plans {
			unknown("plan", plan, at+".plans."+plan, plans)
		}
		for side, c := range map[string]*policy.Conditions{".match": &r.Match, ".match.not": &r.Not} {
			for j, plan := range c.Plans {
				unknown("plan", plan, fmt.Sprintf("%s%s.plans[%d]", at, side, j), plans)
			}
			for j, tenant := range c.Tenants {
				unknown("tenant", tenant, fmt.Sprintf("%s%s.tenants[%d]", at, side, j), tenants)
			}
		}
	}
}

// checkKeys finds API keys of tenants that the file does not know. Keys are
// secrets, so only the tenants are named.
func (f *File) checkKeys(add func(field, format string, args ...any)) {
	if len(f.Tenants) == 0 || f.APIKeys.Redis {
		return
	}
	declared := slices.Sorted(maps.Keys(f.Tenants))
	var unknown []string
	for _, k := range f.APIKeys.Keys {
		if _, ok := f.Tenants[k.Tenant]; k.Tenant != "" && !ok && !slices.Contains(unknown, k.Tenant) {
			unknown = append(unknown, k.Tenant)
		}
	}
	slices.Sort(unknown)
	for _, tenant := range unknown {
		hint := ""
		if near := nearest(tenant, declared); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		add("api_keys", "an API key is tenant %q's, who is not among tenants and so has no plan%s", clip(tenant), hint)
	}
}

// checkShares finds limits of which some region holds nothing, or none can hold
// anything: a share is whole units, of the rate and of what may come at once.
func (f *File) checkShares(add func(field, format string, args ...any)) {
	regions := int64(1 + len(f.Regions.Peers))
	check := func(field string, l weir.Limit) {
		const nothing, instead = "%s admits nothing anywhere: ", ", which no region's share holds whole; "
		switch {
		case l.IsUnlimited() || l.Units() == 0:
		case l.Units() == 1:
			add(field, nothing+"its rate is one unit"+instead+"use scope: global, or give more units in a longer period, such as 60/min for 1/s", l)
		case l.Most() == 1:
			add(field, nothing+"its capacity is one unit"+instead+"raise burst, or use scope: global", l)
		case min(l.Units(), l.Most()) < regions:
			add(field, "%s is less than a unit for each of %d regions, so some hold nothing of it", l, regions)
		}
	}
	for i, rule := range f.Policy.Rules() {
		if rule.Scope != policy.ScopeShare {
			continue
		}
		at := fmt.Sprintf("limits[%d]", i)
		check(at+".scope", rule.Limit)
		for plan, limit := range rule.Plans {
			check(at+".plans."+plan, limit)
		}
		if rule.Try != (weir.Limit{}) {
			check(at+".try", rule.Try)
		}
	}
}

// checkTrust finds ranges that make everybody a trusted proxy.
func (f *File) checkTrust(add func(field, format string, args ...any)) {
	for i, p := range f.ClientIP.TrustedProxies {
		if p.Bits() == 0 {
			add(fmt.Sprintf("client_ip.trusted_proxies[%d]", i),
				"%s trusts everybody, so that each caller chooses the address it is counted by; name the proxies alone", p)
		}
	}
}

// checkSecrets finds files that a daemon will look for at its start and that are
// not here, or hold nothing. They may be where the daemon runs.
func (f *File) checkSecrets(add func(field, format string, args ...any)) {
	type secret struct{ field, file string }
	ofStore := func(field string, s Store) []secret {
		return []secret{
			{field + ".password_file", s.PasswordFile},
			{field + ".tls.ca_file", s.TLS.CAFile},
			{field + ".tls.cert_file", s.TLS.CertFile},
			{field + ".tls.key_file", s.TLS.KeyFile},
		}
	}
	ofDoor := func(field string, l *Listener) []secret {
		return []secret{
			{field + ".token_file", l.TokenFile},
			{field + ".tls.cert_file", l.TLS.CertFile},
			{field + ".tls.key_file", l.TLS.KeyFile},
			{field + ".tls.client_ca_file", l.TLS.ClientCAFile},
		}
	}
	files := slices.Concat(
		[]secret{{"key_secret_file", f.KeySecretFile}, {"admin.token_file", f.Admin.TokenFile}}, ofStore("store", f.Store),
		ofDoor("listen.http", &f.Listen.HTTP), ofDoor("listen.admin", &f.Listen.Admin),
		ofDoor("listen.grpc", &f.Listen.GRPC), ofDoor("listen.resp", &f.Listen.RESP),
	)
	for i, file := range f.User.JWT.KeyFiles {
		files = append(files, secret{fmt.Sprintf("user.jwt.key_files[%d]", i), file})
	}
	for name, peer := range f.Regions.Peers {
		files = append(files, ofStore("regions.peers."+name, peer)...)
	}
	for _, s := range files {
		if s.file == "" {
			continue
		}
		switch info, err := os.Stat(s.file); {
		case err != nil:
			add(s.field, "%s cannot be read here (%v); a daemon does not start without it", s.field, errors.Unwrap(err))
		case info.IsDir():
			add(s.field, "%s cannot be read here (it is a folder); a daemon does not start without it", s.field)
		case info.Mode().IsRegular() && info.Size() == 0:
			add(s.field, "%s is empty here; a daemon does not start with it so", s.field)
		}
	}
}

// checkDoors finds a door that the file alone does not open.
func (f *File) checkDoors(add func(field, format string, args ...any)) {
	if a := f.Listen.GRPC.Address; a != "" && a != "off" {
		add("listen.grpc", "the grpc door needs the flag --rls-config; weir serve does not start without it")
	}
	taken := map[string]string{}
	for _, d := range []struct {
		name string
		at   *Listener
	}{{"http", &f.Listen.HTTP}, {"admin", &f.Listen.Admin}, {"grpc", &f.Listen.GRPC}, {"resp", &f.Listen.RESP}} {
		address := d.at.Address
		if address == "" || address == "off" || strings.HasSuffix(address, ":0") {
			continue
		}
		if other := taken[address]; other != "" {
			add("listen."+d.name, "%s is where the %s door and the %s door listen, and only one of them can", address, other, d.name)
		}
		taken[address] = d.name
	}
}

// known returns the plans and tenants that callers can have.
func (f *File) known() (plans, tenants []string) {
	for name, t := range f.Tenants {
		tenants = append(tenants, name)
		plans = append(plans, t.Plan)
	}
	for _, k := range f.APIKeys.Keys {
		tenants = append(tenants, k.Tenant)
		plans = append(plans, k.Plan)
	}
	for _, list := range []*[]string{&plans, &tenants} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return plans, tenants
}

// checkExempt finds exemptions that any caller can claim.
func (f *File) checkExempt(add func(field, format string, args ...any)) {
	for i, c := range f.source.Exempt {
		if len(c.Headers) > 0 && len(c.IPs)+len(c.Tenants)+len(c.Plans) == 0 {
			add(fmt.Sprintf("exempt[%d].headers", i), "anybody can send this header, and so be exempt; add ips, tenants or plans")
		}
	}
}

// Changes says what happens to balances when f takes the place of old.
func (f *File) Changes(old *File) []Finding {
	var out []Finding
	for _, s := range []struct {
		field   string
		changed bool
		text    string
	}{
		{"store", f.Store.URL != old.Store.URL, "all balances start anew in another store"},
		{"key_prefix", f.KeyPrefix != old.KeyPrefix, "all balances start anew under another key_prefix"},
		{"key_secret_file", f.KeySecretFile != old.KeySecretFile, "all balances start anew if the secret is another one"},
		{"client_ip", f.ClientIP.IPv4Prefix != old.ClientIP.IPv4Prefix || f.ClientIP.IPv6Prefix != old.ClientIP.IPv6Prefix,
			"balances by ip start anew: addresses are cut to other prefixes"},
	} {
		if s.changed {
			out = append(out, f.finding(s.field, s.text))
		}
	}
	for _, c := range f.Policy.Changes(old.Policy) {
		out = append(out, f.finding(c.Field, c.Text))
	}
	return append(out, f.moved(old)...)
}

// moved finds tenants whose balances start anew because they are of another plan. It
// is one finding for all that move alike, at the first of them.
func (f *File) moved(old *File) (out []Finding) {
	type move struct{ was, is string }
	seen := map[move]bool{}
	for _, name := range slices.Sorted(maps.Keys(f.Tenants)) {
		before, ok := old.Tenants[name]
		m := move{before.Plan, f.Tenants[name].Plan}
		if !ok || m.was == m.is || seen[m] {
			continue
		}
		seen[m] = true
		if rules := f.Policy.Moved(old.Policy, m.was, m.is); len(rules) > 0 {
			out = append(out, f.finding("tenants."+name, fmt.Sprintf("the balances of tenants who were of plan %q and are of %q, such as %q, start anew under %s: the plans' limits differ in algorithm, period or name",
				clip(m.was), clip(m.is), clip(name), strings.Join(rules, ", "))))
		}
	}
	return out
}
