package daemon

import (
	"fmt"
	"log/slog"

	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/identity/jwt"
	"github.com/weirhq/weir/policy"
	"github.com/weirhq/weir/policy/policyfile"
)

// rules is what a policy file puts in force, ready to be swapped in whole.
type rules struct {
	resolver *identity.Resolver
	policy   *policy.Policy
	format   *headers.Format
	identity []string // headers by which it knows who a client is
}

// newRules makes rules of f; those of nil admit everything.
func newRules(f *policyfile.File, who *callers, log *slog.Logger) (*rules, error) {
	r := &rules{}
	config, shape := identity.Config{}, headers.Options{}
	var err error
	if f != nil {
		r.policy = f.Policy
		if config, err = identityOf(f, who); err != nil {
			return nil, &PolicyError{err}
		}
		shape = shapeOf(f)
		for _, name := range []string{config.ClientIP.Header, config.User.Header} {
			if name != "" {
				r.identity = append(r.identity, name)
			}
		}
		if f.APIKeys.Redis && who.lookups == nil {
			log.Warn("api_keys.redis needs a store in Redis; only the keys of the policy file are known", "file", f.Name)
		}
	}
	config.ClientIP.OnDistrust = func(d identity.Distrust) {
		log.Warn("a forwarding header from a peer that is not trusted is ignored; name the peer in client_ip.trusted_proxies if it is yours",
			"peer", d.Peer.String(), "header", d.Header)
	}
	if r.resolver, err = identity.NewResolver(config); err != nil {
		return nil, err
	}
	if r.format, err = headers.New(shape); err != nil {
		return nil, err
	}
	return r, nil
}

// PolicyError is a policy file that is right by itself and names something that
// is not.
type PolicyError struct{ Err error }

// Error returns the cause's text.
func (e *PolicyError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

func identityOf(f *policyfile.File, who *callers) (identity.Config, error) {
	c := identity.Config{
		ClientIP: f.ClientIP,
		APIKeys: identity.APIKeys{
			Header: f.APIKeys.Header, Keys: f.APIKeys.Keys,
			Lookups: who.lookups, TenantsOnly: !f.APIKeys.Redis,
		},
		Tenants: f.Tenants,
		User:    identity.User{Header: f.User.Header, TokenHeader: f.User.JWT.Header},
	}
	if t := f.User.JWT; len(t.KeyFiles) > 0 {
		v, err := jwt.New(jwt.Options{KeyFiles: t.KeyFiles, Issuer: t.Issuer, Audience: t.Audience, Claim: t.Claim, Leeway: t.Leeway})
		if err != nil {
			return c, fmt.Errorf("%s: user.jwt: %w", f.Name, err)
		}
		c.User.Verifier = v
	}
	return c, nil
}

func shapeOf(f *policyfile.File) headers.Options {
	o := headers.Options{Jitter: headers.Jitter(f.RetryJitter) / 100}
	if f.RetryJitter == 0 {
		o.Jitter = headers.NoJitter
	}
	for _, family := range []struct {
		sent bool
		is   headers.Families
	}{{f.Headers.Triple, headers.Triple}, {f.Headers.Draft11, headers.Draft11}, {f.Headers.XRateLimit, headers.XRateLimit}} {
		if family.sent {
			o.Families |= family.is
		}
	}
	if o.Families == 0 {
		o.Families = headers.None
	}
	if f.Headers.XReset == "delta" {
		o.XReset = headers.Delta
	}
	if f.Denied.Status != 0 {
		o.Denied = &headers.Body{Status: f.Denied.Status, ContentType: f.Denied.ContentType, Content: f.Denied.Body}
	}
	return o
}

// enforce puts r in force. Balances stay. The format follows the gate in a step
// of its own: it decides nothing.
func (c *Core) enforce(r *rules) {
	c.shareRegions(r.policy)
	c.Gate.Swap(r.resolver, r.policy)
	c.format.Store(r.format)
	c.identityHeaders.Store(&r.identity)
	c.layers.Clear() // what they know was decided under the rules before
}
