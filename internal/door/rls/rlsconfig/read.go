package rlsconfig

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirhq/weir"
)

// reader walks the nodes of one file into a domain. Every fault is told, not
// only the first.
type reader struct {
	file string
	all  bool // all_or_nothing where the file does not say it
	errs Errors
}

func (r *reader) fail(n *node, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &Error{r.file, max(n.line, 1), max(n.column, 1), fmt.Sprintf(format, args...)})
	}
}

// field reads the value of a key.
type field struct {
	key  string
	read func(n *node)
}

// object walks the keys of a mapping. A key that stands twice counts as it
// stands last, as in that server.
func (r *reader) object(n *node, what string, fields ...field) bool {
	if n.kind != mapping {
		r.fail(n, "%s must be a mapping of keys to values", what)
		return false
	}
	last := map[string]*node{}
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].key
	}
	for i := 0; i < len(n.items); i += 2 {
		key := n.items[i]
		_, boolean := key.boolean()
		_, whole := key.integer()
		switch {
		case key.kind != scalar || !key.quoted && (boolean || whole || key.float()):
			r.fail(key, "config error, key is not of type string: %s", clip(key.text))
		case !slices.Contains(names, key.text):
			r.fail(key, "config error, unknown key '%s' in %s%s", clip(key.text), what, meant(key.text, names))
		default:
			last[key.text] = n.items[i+1]
		}
	}
	for _, f := range fields {
		if value := last[f.key]; value != nil {
			f.read(value)
		}
	}
	return true
}

// list walks the items of a list, which must be mappings.
func (r *reader) list(n *node, what string, each func(n *node)) {
	switch n.kind {
	case null:
		return
	case sequence:
	default:
		r.fail(n, "%s must be a list", what)
		return
	}
	for _, item := range n.items {
		if item.kind != mapping {
			r.fail(item, "config error, yaml file contains list of type other than map: %s", clip(item.text))
			continue
		}
		each(item)
	}
}

// text reads a string, as written: 0123, yes and 2024-01-01 stay what they are.
func (r *reader) text(to *string, what string) func(*node) {
	return func(n *node) {
		switch {
		case n.kind == null:
		case n.kind != scalar:
			r.fail(n, "%s must be text", what)
		case n.float():
			r.fail(n, "error checking config: %s is a number with a fraction; write text in quotes: %q", clip(n.text), clip(n.text))
		default:
			*to = n.text
			if !n.quoted && (n.text == "~" || strings.EqualFold(n.text, "null")) {
				*to = ""
			}
		}
	}
}

func (r *reader) flag(to *bool, what string) func(*node) {
	return func(n *node) {
		if n.kind == null {
			return
		}
		value, ok := n.boolean()
		if !ok {
			r.fail(n, "%s must be true or false, without quotes", what)
			return
		}
		*to = value
	}
}

func (r *reader) count(to *int64, given *bool) func(*node) {
	return func(n *node) {
		if n.kind == null {
			return
		}
		*given = true
		value, ok := n.integer()
		switch {
		case n.float():
			r.fail(n, "error checking config: requests_per_unit is a whole number, not %s", clip(n.text))
		case !ok:
			r.fail(n, "requests_per_unit must be a whole number, without quotes")
		case value < 0 || value > math.MaxUint32:
			r.fail(n, "requests_per_unit must lie between 0 and 4294967295")
		default:
			*to = value
		}
	}
}

// domain reads a whole file into d, a new one if nil.
func (r *reader) domain(root *node, d *Domain) *Domain {
	if d == nil {
		d = &Domain{}
	}
	if root == nil || root.kind == null {
		r.fail(&node{}, "config file cannot have empty domain: the file is empty")
		return nil
	}
	if r.foreign(root) {
		return nil
	}
	var descriptors *node
	all := r.all
	ok := r.object(root, "the file",
		field{"name", func(*node) {}}, // of xDS, which some write into files
		field{"domain", r.text(&d.Name, "domain")},
		field{"descriptors", func(n *node) { descriptors = n }},
		field{"weir", func(n *node) {
			r.object(n, "weir", field{"all_or_nothing", r.flag(&all, "all_or_nothing")})
		}},
	)
	if ok && d.Name == "" {
		r.fail(root, "config file cannot have empty domain")
	}
	if descriptors != nil {
		r.level(descriptors, &d.level, path{domain: d.Name, all: all})
	}
	d.Space = "rls:" + d.Name
	return d
}

// foreign tells of files that are often put here and are something else.
func (r *reader) foreign(root *node) bool {
	if root.kind == sequence {
		for _, item := range root.items {
			for i := 0; item.kind == mapping && i < len(item.items); i += 2 {
				if item.items[i].text == "namespace" || item.items[i].text == "max_value" {
					r.fail(root, "error loading config file: cannot unmarshal a list: this is the format of limitador; write domain: and descriptors: as envoyproxy/ratelimit does")
					return true
				}
			}
		}
		r.fail(root, "error loading config file: cannot unmarshal a list: a file begins with domain:")
		return true
	}
	for i := 0; root.kind == mapping && i < len(root.items); i += 2 {
		if key := root.items[i]; key.text == "apiVersion" || key.text == "kind" {
			r.fail(key, "config error, unknown key '%s': this is a Kubernetes object; put the text below data: into a file of its own", key.text)
			return true
		}
	}
	return false
}

// path is where the reader stands in the tree of descriptors.
type path struct {
	domain   string
	segments []string
	all      bool // all_or_nothing of the file
}

func (p path) String() string { return p.domain + "." + strings.Join(p.segments, ".") }

func (r *reader) level(n *node, to *level, at path) {
	r.list(n, "descriptors", func(n *node) { r.descriptor(n, to, at) })
}

func (r *reader) descriptor(n *node, to *level, at path) {
	d := &Descriptor{}
	l := &limit{}
	var rateLimit, own, metadata, below *node
	var shadow, quota, detailed bool
	faults := len(r.errs)
	r.object(n, "a descriptor",
		field{"key", r.text(&d.Key, "key")},
		field{"value", r.text(&d.Value, "value")},
		field{"rate_limit", func(n *node) { rateLimit = n }},
		field{"shadow_mode", r.flag(&shadow, "shadow_mode")},
		field{"quota_mode", r.flag(&quota, "quota_mode")},
		field{"detailed_metric", r.flag(&detailed, "detailed_metric")},
		field{"value_to_metric", r.flag(&d.ValueInMetric, "value_to_metric")},
		field{"share_threshold", r.flag(&d.Share, "share_threshold")},
		field{"metadata", func(n *node) { metadata = n }},
		field{"descriptors", func(n *node) { below = n }},
		field{"weir", func(n *node) { own = n }},
	)
	if d.Key == "" {
		if len(r.errs) == faults {
			r.fail(n, "descriptor has empty key")
		}
		return
	}
	at.segments = append(slices.Clone(at.segments), segment(d.Key, d.Value))
	if !to.add(d) {
		r.fail(n, "duplicate descriptor composite key '%s'", at)
	}
	if d.Share && !strings.Contains(d.Value, "*") {
		r.fail(n, "share_threshold goes with a value that has a *")
	}
	if rateLimit != nil && rateLimit.kind != null || own != nil {
		l.rule = Rule{Shadow: shadow, Quota: quota, Detailed: detailed, Path: at.segments, AllOrNothing: at.all, Label: at.String()}
		if r.limit(n, rateLimit, own, l) {
			d.rule = &l.rule
		}
	}
	if metadata != nil && metadata.kind != null {
		switch value, ok := r.value(metadata).(map[string]any); {
		case !ok:
			r.fail(metadata, "metadata must be a mapping of keys to values")
		case d.rule == nil && len(r.errs) == faults:
			r.fail(metadata, "metadata goes with a rate_limit")
		case d.rule != nil:
			s, err := structpb.NewStruct(value)
			if err != nil {
				r.fail(metadata, "metadata cannot be sent: %v", err)
			}
			d.rule.Metadata = s
		}
	}
	if below != nil {
		r.level(below, &d.below, at)
	}
}

// add files the descriptor, unless one like it is there.
func (l *level) add(d *Descriptor) bool {
	switch {
	case d.Value == "":
		if l.bare[d.Key] != nil {
			return false
		}
		if l.bare == nil {
			l.bare = map[string]*Descriptor{}
		}
		l.bare[d.Key] = d
	case strings.Contains(d.Value, "*"):
		for _, w := range l.wild {
			if w.Key == d.Key && w.Value == d.Value {
				return false
			}
		}
		d.parts = strings.Split(d.Value, "*")
		l.wild = append(l.wild, d)
	default:
		at := pair{d.Key, d.Value}
		if l.exact[at] != nil {
			return false
		}
		if l.exact == nil {
			l.exact = map[pair]*Descriptor{}
		}
		l.exact[at] = d
	}
	return true
}

// value returns what metadata holds, as JSON has it.
func (r *reader) value(n *node) any {
	switch n.kind {
	case null:
		return nil
	case sequence:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = r.value(item)
		}
		return list
	case mapping:
		m := make(map[string]any, len(n.items)/2)
		for i := 0; i < len(n.items); i += 2 {
			if n.items[i].kind != scalar {
				r.fail(n.items[i], "a key of metadata must be text")
				continue
			}
			m[n.items[i].text] = r.value(n.items[i+1])
		}
		return m
	}
	if b, ok := n.boolean(); ok {
		return b
	}
	if i, ok := n.integer(); ok {
		return float64(i)
	}
	if n.float() {
		var f float64
		if _, err := fmt.Sscan(n.text, &f); err == nil {
			return f
		}
	}
	return n.text
}

// failure reads on_store_failure.
func (r *reader) failure(to *weir.Failure, given *bool) func(*node) {
	return func(n *node) {
		for _, f := range []weir.Failure{weir.Local, weir.Share, weir.Open, weir.Closed} {
			if n.kind == scalar && n.text == f.String() {
				*to, *given = f, true
				return
			}
		}
		r.fail(n, "on_store_failure is local, share, open or closed")
	}
}
