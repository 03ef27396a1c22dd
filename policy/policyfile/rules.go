package policyfile

import (
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/policy"
)

func (r *reader) exempt(n *node, path string, f *File) {
	r.list(n, path, "exempt", func(n *node, path string) {
		var c policy.Conditions
		if r.object(n, path, "exempt", r.conditions(&c)) {
			f.source.Exempt = append(f.source.Exempt, c)
		} else if isNull(n) {
			r.fail(n, "an exempt entry has no condition")
		}
	})
}

func (r *reader) limits(n *node, path string, f *File) {
	r.list(n, path, "limits", func(n *node, path string) {
		f.source.Rules = append(f.source.Rules, r.rule(n, path))
	})
}

func (r *reader) rule(n *node, path string) policy.Rule {
	var rule policy.Rule
	var failure, mode, missing string
	if isNull(n) {
		r.fail(n, "a rule has no fields; write name: key: and limit:")
	}
	r.object(n, path, "a rule", []field{
		{"name", func(n *node, path string) { rule.Name, _ = r.scalar(n, path) }},
		{"match", func(n *node, path string) {
			fields := append(r.conditions(&rule.Match), field{"not", func(n *node, path string) {
				if !r.object(n, path, "match.not", r.conditions(&rule.Not)) && isNull(n) {
					r.fail(n, "not has no condition")
				}
			}})
			if !r.object(n, path, "match", fields) && isNull(n) {
				r.fail(n, "match has no condition; leave it out for a rule that matches every request")
			}
		}},
		{"key", func(n *node, path string) { rule.Key = r.key(n, path) }},
		{"limit", func(n *node, path string) { rule.Limit = r.limit(n, path) }},
		{"plans", func(n *node, path string) {
			rule.Plans = map[string]weir.Limit{}
			r.entries(n, path, "plans", false, func(plan string, _, v *node, path string) {
				rule.Plans[plan] = r.limit(v, path)
			})
		}},
		{"try", func(n *node, path string) { rule.Try = r.limit(n, path) }},
		{"cost", func(n *node, path string) { r.cost(n, path, &rule.Cost) }},
		{"on_missing", func(n *node, path string) { missing = r.word(n, path, "ip", "skip", "deny") }},
		{"on_store_failure", func(n *node, path string) { failure = r.word(n, path, "local", "share", "open", "closed") }},
		{"scope", func(n *node, path string) { rule.Scope = r.scope(n, path) }},
		{"mode", func(n *node, path string) { mode = r.word(n, path, "enforce", "shadow") }},
		{"expose", func(n *node, path string) {
			if shown, ok := r.truth(n, path); ok && shown {
				rule.Expose = policy.ExposeYes
			} else if ok {
				rule.Expose = policy.ExposeNo
			}
		}},
	})
	rule.OnMissing = map[string]policy.OnMissing{"skip": policy.Skip, "deny": policy.Deny}[missing]
	if mode == "shadow" {
		rule.Mode = policy.Shadow
	}
	// A tenant's own number is no reason to answer otherwise than the rule does.
	rule.OnFailure = rule.Limit.Failure()
	if failure != "" {
		r.failure(&rule, failure, path)
	}
	return rule
}

// failure gives the rule's answer for a store failure to all its limits. A limit
// that states one of its own would leave two answers for one question.
func (r *reader) failure(rule *policy.Rule, word, path string) {
	answers := map[string]weir.Failure{"local": weir.Local, "share": weir.Share, "open": weir.Open, "closed": weir.Closed}
	rule.OnFailure = answers[word]
	give := func(l weir.Limit, field string) weir.Limit {
		if l == (weir.Limit{}) {
			return l
		}
		if r.stated[join(path, field)] {
			m := r.places[join(path, field)]
			r.fail(&node{line: m.line, column: m.column}, "on_store_failure is given by the rule and by this limit; leave one out")
		}
		return l.OnFailure(rule.OnFailure)
	}
	rule.Limit = give(rule.Limit, "limit")
	rule.Try = give(rule.Try, "try")
	for plan, l := range rule.Plans {
		rule.Plans[plan] = give(l, "plans."+plan)
	}
}

// conditions are the fields of match, not and exempt.
func (r *reader) conditions(to *policy.Conditions) []field {
	return []field{
		{"methods", func(n *node, path string) {
			to.Methods = r.texts(n, path, "methods")
			if slices.Contains(to.Methods, "GET") && slices.Contains(to.Methods, "HEAD") {
				r.fail(n, "HEAD is covered by GET; leave it out")
			}
		}},
		{"paths", func(n *node, path string) { to.Paths = r.texts(n, path, "paths") }},
		{"hosts", func(n *node, path string) { to.Hosts = r.texts(n, path, "hosts") }},
		{"ips", func(n *node, path string) { to.IPs = r.prefixes(n, path, "ips") }},
		{"tenants", func(n *node, path string) { to.Tenants = r.texts(n, path, "tenants") }},
		{"plans", func(n *node, path string) { to.Plans = r.texts(n, path, "plans") }},
		{"headers", func(n *node, path string) { r.headerConditions(n, path, to) }},
	}
}

// headerConditions reads {X-Env: prod, X-Client: [ios, android], X-Debug: "*"}.
func (r *reader) headerConditions(n *node, path string, to *policy.Conditions) {
	r.entries(n, path, "headers", false, func(name string, k, v *node, path string) {
		c := policy.HeaderCondition{Name: textproto.CanonicalMIMEHeaderKey(name)}
		switch {
		case !isToken(name):
			r.fail(k, "%q is no header name", clip(name))
			return
		case c.Name == "Host": // net/http takes it out of the header
			r.fail(k, "%q is never among the headers; write hosts: beside headers:", clip(name))
			return
		case slices.ContainsFunc(to.Headers, func(h policy.HeaderCondition) bool { return h.Name == c.Name }):
			r.fail(k, "%q stands twice in headers", clip(name))
			return
		case v.kind == sequence:
			c.Values = r.texts(v, path, "the values of a header")
		default:
			s, ok := r.scalar(v, path)
			if !ok {
				return
			}
			if s != "*" {
				c.Values = []string{s}
			}
		}
		to.Headers = append(to.Headers, c)
	})
}

// key reads the parts of a key.
func (r *reader) key(n *node, path string) []identity.Part {
	var parts []identity.Part
	r.list(n, path, "key", func(n *node, path string) {
		s, ok := r.scalar(n, path)
		if !ok {
			return
		}
		p, err := identity.ParsePart(s)
		if err != nil {
			problem := err.Error()
			if wrong := (*identity.ConfigError)(nil); errors.As(err, &wrong) {
				problem = wrong.Problem
			}
			if near := nearest(s, identity.PartNames()); near != "" && near != s {
				problem += fmt.Sprintf("; did you mean %q?", near)
			}
			r.fail(n, "%s", problem)
			return
		}
		parts = append(parts, p)
	})
	return parts
}

// cost reads a number, or {default, paths}.
func (r *reader) cost(n *node, path string, to *policy.Cost) {
	units := func(n *node, path string, to *int64, free *bool) {
		if c, ok := r.integer(n, path, 0, maxCost); ok {
			*to = c
			*free = c == 0
		}
	}
	if n.kind < sequence {
		units(n, path, &to.Default, &to.Free)
		return
	}
	r.object(n, path, "cost", []field{
		{"default", func(n *node, path string) { units(n, path, &to.Default, &to.Free) }},
		{"paths", func(n *node, path string) {
			to.Paths = map[string]int64{}
			r.entries(n, path, "cost.paths", false, func(pattern string, _, v *node, path string) {
				if c, ok := r.integer(v, path, 0, maxCost); ok {
					to.Paths[pattern] = c
				}
			})
		}},
	})
}

// maxCost is the largest cost: what JSON and Lua carry exactly.
const maxCost = 1<<53 - 1

// limit reads a limit string, or an object with the same words.
func (r *reader) limit(n *node, path string) weir.Limit {
	if n.kind == mapping {
		return r.limitWords(n, path)
	}
	s, ok := r.scalar(n, path)
	if !ok {
		return weir.Limit{}
	}
	r.stated[path] = strings.Contains(s, "on_store_failure=")
	l, problem := parseLimit(s)
	if problem != "" {
		r.fail(n, "%s", problem)
	}
	return l
}

func parseLimit(s string) (weir.Limit, string) {
	l, err := weir.ParseLimit(s)
	if err == nil {
		return l, ""
	}
	if wrong := (*weir.InputError)(nil); errors.As(err, &wrong) {
		return weir.Limit{}, wrong.Problem
	}
	return weir.Limit{}, err.Error()
}

// limitWords reads the object form of a limit. Its words are joined to a limit
// string, so that there is one parser for both; they are added one at a time,
// so that a fault is found at the word that brings it.
func (r *reader) limitWords(n *node, path string) weir.Limit {
	type word struct {
		text string
		at   *node
	}
	var rate word
	var options []word
	faults := len(r.errs)
	option := func(name string) field {
		return field{name, func(n *node, path string) {
			s, ok := r.scalar(n, path)
			if ok && (s == "" || strings.ContainsAny(s, " \t\n")) {
				r.fail(n, "%s must be one word", name)
			}
			options = append(options, word{" " + name + "=" + s, n})
		}}
	}
	r.object(n, path, "a limit", []field{
		{"rate", func(n *node, path string) { rate.text, _ = r.scalar(n, path); rate.at = n }},
		option("burst"), option("algorithm"), option("name"), option("on_store_failure"), option("tz"),
	})
	switch {
	case len(r.errs) > faults:
		return weir.Limit{}
	case rate.at == nil:
		r.fail(n, "a limit needs rate:, such as {rate: 20/s, burst: 200}")
		return weir.Limit{}
	case strings.Contains(rate.text, " "):
		if _, problem := parseLimit(rate.text); problem != "" {
			r.fail(rate.at, "%s", problem)
		} else {
			r.fail(rate.at, "rate must be N/PERIOD alone; its options are fields beside it")
		}
		return weir.Limit{}
	}
	// The algorithm decides what else may stand, and tz which periods there are.
	order := func(w word) int {
		switch {
		case strings.HasPrefix(w.text, " algorithm="):
			return 0
		case strings.HasPrefix(w.text, " tz="):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(options, func(a, b word) int { return order(a) - order(b) })
	text := rate.text
	for _, o := range options {
		text += o.text
	}
	l, problem := parseLimit(text)
	if problem == "" {
		r.stated[path] = strings.Contains(text, " on_store_failure=")
		return l
	}
	at := rate.at
	for text = rate.text; len(options) > 0; options = options[1:] {
		_, before := parseLimit(text)
		text += options[0].text
		if _, after := parseLimit(text); before == "" && after != "" {
			at = options[0].at
			break
		}
	}
	r.fail(at, "%s", problem)
	return weir.Limit{}
}
