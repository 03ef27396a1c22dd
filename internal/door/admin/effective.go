package admin

import (
	"net/http"
	"net/netip"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/policy"
)

// Effective is the policy in force, switches included, in the words of its file.
type Effective struct {
	Rules []EffectiveRule `json:"rules"`
}

// EffectiveRule is one rule. What the file leaves out is left out.
type EffectiveRule struct {
	Name  string            `json:"name"`
	Match *Conditions       `json:"match,omitempty"`
	Not   *Conditions       `json:"not,omitempty"`
	Key   []string          `json:"key"`
	Limit string            `json:"limit,omitempty"` // none: callers of other plans are skipped
	Plans map[string]string `json:"plans,omitempty"`
	Try   string            `json:"try,omitempty"`
	// Mode is what holds now; FileMode what holds again once a switch has ended,
	// UntilMS milliseconds after the Unix epoch.
	Mode     string `json:"mode"`
	FileMode string `json:"file_mode"`
	UntilMS  int64  `json:"until_ms,omitempty"`
}

// Conditions are what a rule matches by.
type Conditions struct {
	Methods []string       `json:"methods,omitempty"`
	Paths   []string       `json:"paths,omitempty"`
	Hosts   []string       `json:"hosts,omitempty"`
	IPs     []netip.Prefix `json:"ips,omitempty"`
	Tenants []string       `json:"tenants,omitempty"`
	Plans   []string       `json:"plans,omitempty"`
	// Headers maps a name to the values of which one is enough, or to none if
	// being there is.
	Headers map[string][]string `json:"headers,omitempty"`
}

// policy answers with the policy in force.
func (d *door) policy(w http.ResponseWriter, _ *http.Request) {
	e := Effective{Rules: []EffectiveRule{}}
	switches := d.Gate.Switches()
	for _, r := range d.Gate.Policy().Rules() {
		e.Rules = append(e.Rules, effective(r, switches))
	}
	w.Header().Set("Cache-Control", "no-store")
	api.Write(w, http.StatusOK, e)
}

func effective(r *policy.Rule, switches []gate.ModeSwitch) EffectiveRule {
	e := EffectiveRule{
		Name: r.Name, Match: conditions(&r.Match), Not: conditions(&r.Not), Key: []string{},
		Limit: limitText(r.Limit), Try: limitText(r.Try), Mode: r.Mode.String(), FileMode: r.Mode.String(),
	}
	for _, part := range r.Key {
		e.Key = append(e.Key, part.String())
	}
	for plan, limit := range r.Plans {
		if e.Plans == nil {
			e.Plans = make(map[string]string)
		}
		e.Plans[plan] = limitText(limit)
	}
	named := false // a switch by name beats that of all
	for _, s := range switches {
		if s.Rule == r.Name || s.Rule == "" && !named {
			e.Mode, e.UntilMS, named = s.Mode.String(), s.Until.UnixMilli(), s.Rule != ""
		}
	}
	return e
}

func limitText(l weir.Limit) string {
	if l == (weir.Limit{}) {
		return ""
	}
	return l.String()
}

func conditions(c *policy.Conditions) *Conditions {
	out := &Conditions{Methods: c.Methods, Paths: c.Paths, Hosts: c.Hosts, IPs: c.IPs, Tenants: c.Tenants, Plans: c.Plans}
	for _, h := range c.Headers {
		if out.Headers == nil {
			out.Headers = make(map[string][]string)
		}
		out.Headers[h.Name] = append([]string{}, h.Values...)
	}
	if len(out.Methods)+len(out.Paths)+len(out.Hosts)+len(out.IPs)+len(out.Tenants)+len(out.Plans)+len(out.Headers) == 0 {
		return nil
	}
	return out
}
