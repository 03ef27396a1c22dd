package identity

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
)

// Resolver turns calls into callers. It is safe for concurrent use. A changed
// configuration is a new Resolver over the same Lookups.
type Resolver struct {
	config     Config
	forwarding forwarding
	keys       keyring
	distrusts  distrusts
}

// NewResolver checks the configuration. Errors are *ConfigError values.
func NewResolver(config Config) (*Resolver, error) {
	r := &Resolver{config: config}
	err := r.config.check()
	if err != nil {
		return nil, err
	}
	if r.forwarding, err = newForwarding(&r.config.ClientIP); err != nil {
		return nil, err
	}
	if r.keys, err = newKeyring(config.APIKeys.Keys); err != nil {
		return nil, err
	}
	r.distrusts.hook = config.ClientIP.OnDistrust
	return r, nil
}

// Resolve is Locate and Identify in one.
func (r *Resolver) Resolve(ctx context.Context, call *Call) (Caller, error) {
	c := r.Locate(call)
	return c, r.Identify(ctx, call, &c)
}

// Locate finds the client's address and network, and whether the peer is
// trusted. It asks nobody, so that exemptions and blocks by address can be
// judged before anything is looked up.
func (r *Resolver) Locate(call *Call) Caller {
	peer := plain(call.Peer)
	c := Caller{IP: peer}
	if call.Unix {
		c.IP, c.Trusted = netip.Addr{}, r.config.ClientIP.TrustUnix
	} else {
		c.Trusted = r.forwarding.trusted.contains(peer)
	}
	if call.Header != nil {
		f := r.forwardingOf(call)
		if lines := call.Header.Values(f.header); len(lines) > 0 {
			if c.Trusted {
				c.IP = f.client(lines, c.IP)
			} else {
				r.distrust(c.IP, f.header)
			}
		}
	}
	c.Network = r.NetworkOf(c.IP)
	return c
}

// forwardingOf returns how the call's client is found: by the configured header,
// or behind a gateway that does not set it by one that it sets.
func (r *Resolver) forwardingOf(call *Call) *forwarding {
	f := &r.forwarding
	if call.Gateway == nil || slices.Contains(call.Gateway, f.header) {
		return f
	}
	other := *f
	other.read(call.Gateway[0])
	return &other
}

// ForwardingHeader returns the header in which a trusted peer names the call's
// client.
func (r *Resolver) ForwardingHeader(call *Call) string { return r.forwardingOf(call).header }

// NetworkOf cuts an address to what counts as one caller here.
func (r *Resolver) NetworkOf(ip netip.Addr) netip.Prefix {
	return NetworkOf(ip, r.config.ClientIP.IPv4Prefix, r.config.ClientIP.IPv6Prefix)
}

func (r *Resolver) distrust(peer netip.Addr, header string) {
	r.distrusts.note(Distrust{Peer: r.NetworkOf(peer), Header: header, Setting: "client_ip.trusted_proxies"})
}

// Identify adds the API key, tenant, plan and user to a located caller. The
// only error is that of a context that ended while it waited; a directory that
// fails leaves what is known, and counts it.
func (r *Resolver) Identify(ctx context.Context, call *Call, c *Caller) error {
	if call.Header == nil {
		return nil
	}
	byToken := r.identifyUser(call, c)
	header := r.config.APIKeys.Header
	if header == "" || byToken && header == r.config.User.TokenHeader {
		return nil // a verified token is not somebody's API key as well
	}
	return r.identifyKey(ctx, credential(call.Header, header), c)
}

// identifyUser names the user, and reports whether a token did.
func (r *Resolver) identifyUser(call *Call, c *Caller) (byToken bool) {
	u := &r.config.User
	if u.Verifier != nil {
		if token := credential(call.Header, u.TokenHeader); token != "" {
			// Whose token it is not is no matter here: without a user the part is
			// missing, and the service itself refuses the token.
			user, err := u.Verifier.Verify(token)
			if byToken = err == nil && user != ""; byToken {
				c.User = user
			}
		}
	}
	if !byToken && u.Header != "" {
		if c.Trusted && call.Gateway == nil {
			c.User = headerValue(call.Header, u.Header)
		} else if !c.Trusted && len(call.Header.Values(u.Header)) > 0 {
			r.distrust(c.IP, u.Header)
		}
	}
	if c.User != "" && u.Alias != nil {
		c.User = u.Alias(c.User)
	}
	return byToken
}

func (r *Resolver) identifyKey(ctx context.Context, key string, c *Caller) error {
	if key == "" {
		return nil
	}
	if len(key) > maxKeyBytes {
		c.Key = KeyUnknown
		return nil
	}
	sum := hashKey(key)
	known, listed := r.keys[sum]
	var said KeyRecord // by the directory
	if lookups := r.config.APIKeys.Lookups; lookups != nil && !r.config.APIKeys.TenantsOnly {
		answer, err := lookups.key(ctx, sum, c.Network, listed)
		if err != nil {
			return err
		}
		switch {
		case answer.outcome == found:
			said, known.id, listed = answer.value.KeyRecord, answer.value.id, true
		case answer.outcome == unresolved && !listed:
			c.Key = KeyUnresolved
			return nil
		}
	}
	if !listed {
		c.Key = KeyUnknown
		return nil
	}
	return r.settle(ctx, c, known, said)
}

// settle fills in what a known key leads to, by the file and by the directory.
func (r *Resolver) settle(ctx context.Context, c *Caller, key namedKey, said KeyRecord) error {
	c.Key, c.APIKey, c.Tenant = KeyKnown, key.id, cmp.Or(said.Tenant, key.Tenant)
	if key.Disabled || said.Disabled {
		c.Key = KeyDisabled
	}
	if c.Tenant == "" {
		c.Plan = cmp.Or(said.Plan, key.Plan)
		return nil
	}
	var kept TenantRecord
	if lookups := r.config.APIKeys.Lookups; lookups != nil {
		var err error
		if kept, err = lookups.tenant(ctx, c.Tenant); err != nil {
			return err
		}
	}
	file := r.config.Tenants[c.Tenant]
	c.Plan = cmp.Or(said.Plan, kept.Plan, key.Plan, file.Plan)
	if c.Limits = kept.Limits; c.Limits == nil {
		c.Limits = file.Limits
	}
	return nil
}

// OwnLimits returns the limits that tenants have of their own on a rule: those that
// the configuration names, and that of tenant, or "", by the directory, if it can be
// asked. The error is that of a context that ended while it waited.
func (r *Resolver) OwnLimits(ctx context.Context, rule, tenant string) (texts []string, err error) {
	for _, t := range r.config.Tenants {
		if text, ok := t.Limits[rule]; ok {
			texts = append(texts, text)
		}
	}
	lookups := r.config.APIKeys.Lookups
	if lookups == nil || tenant == "" || tenant == NoValue {
		return texts, nil
	}
	kept, err := lookups.tenant(ctx, tenant)
	if text, ok := kept.Limits[rule]; ok {
		texts = append(texts, text)
	}
	return texts, err
}
