package rlsconfig

import (
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weirhq/weir"
)

// Config is what a directory says. It is not changed after Load and safe for
// concurrent use.
type Config struct {
	domains map[string]*Domain
	Files   []string // in order of their names
}

// Domain is the rules of one domain.
type Domain struct {
	Name  string
	Space string // of its balances
	level
}

// Domain returns the rules of the domain, or nil.
func (c *Config) Domain(name string) *Domain { return c.domains[name] }

// Rules calls yield for every rule, in no order.
func (c *Config) Rules(yield func(d *Domain, r *Rule)) {
	for _, d := range c.domains {
		d.level.rules(func(r *Rule) { yield(d, r) })
	}
}

// level is the descriptors that may stand at one depth.
//
// An entry falls under the descriptor with its key and value, else under the
// first in the file whose value has a * and fits, else under that with its key
// alone. Key and value are kept apart, unlike in that server, where a_b: c and
// a: b_c are one.
type level struct {
	exact map[pair]*Descriptor
	wild  []*Descriptor
	bare  map[string]*Descriptor
}

type pair struct{ key, value string }

// Descriptor is one descriptor of the file.
type Descriptor struct {
	Key, Value string
	// Share says that all values that fit a * are counted as one.
	Share bool
	// ValueInMetric puts the value of a request into the name of the metric.
	ValueInMetric bool
	rule          *Rule
	parts         []string // Value between its *
	below         level
}

// Rule is what a descriptor is limited by.
type Rule struct {
	Limit weir.Limit
	// Tally says that refused hits are counted, as that server does. Limit then
	// admits one more than Requests: the last unit is what a refusal leaves.
	Tally     bool
	Requests  int64 // what is admitted in a period
	Unlimited bool
	// AllOrNothing joins the rule with those of the request that say so too: all
	// are charged or none.
	AllOrNothing bool
	Shadow       bool // counted, never over the limit
	Quota        bool // over the limit only if all with Quota are
	Name         string
	Replaces     []string
	Metadata     *structpb.Struct
	// Reported is the current_limit of answers.
	Reported *rlsv3.RateLimitResponse_RateLimit

	// Path is the name of its metric after the domain, a segment a level, each
	// as the file has it.
	Path []string
	// Detailed puts every value of a request into the name of the metric.
	Detailed bool
	// Label is the rule's name for observers: its domain and Path.
	Label string
}

// Counted is what is counted of Requests, and Beyond the rest of it, which is
// told and never reached.
func (r *Rule) Counted() int64 { return min(r.Requests, MaxRequests) }

// Beyond is Requests less Counted.
func (r *Rule) Beyond() int64 { return r.Requests - r.Counted() }

// Metric appends the segments of the metric's name for a request's entries,
// which fell under levels. text is called for the value of entry i.
func (r *Rule) Metric(to []string, levels []*Descriptor, text func(i int) string) []string {
	for i, d := range levels {
		if !d.Share && (r.Detailed || d.ValueInMetric) {
			to = append(to, segment(d.Key, text(i)))
		} else {
			to = append(to, r.Path[i])
		}
	}
	return to
}

// Static reports whether the metric's name is Path whatever the request.
func (r *Rule) Static(levels []*Descriptor) bool {
	for _, d := range levels {
		if !d.Share && (r.Detailed || d.ValueInMetric) {
			return false
		}
	}
	return true
}

func segment(key, value string) string {
	if value == "" {
		return key
	}
	return key + "_" + value
}

// Match follows the n entries of a descriptor, which entry returns, and appends
// what they fell under to levels. The rule is nil where none applies: there is
// none for these entries, or the file goes on below them or ends above.
func (d *Domain) Match(n int, entry func(i int) (key, value string), levels []*Descriptor) ([]*Descriptor, *Rule) {
	at := &d.level
	for i := range n {
		key, value := entry(i)
		next := at.find(key, value)
		if next == nil {
			return levels, nil
		}
		levels = append(levels, next)
		if i == n-1 {
			return levels, next.rule
		}
		at = &next.below
	}
	return levels, nil
}

func (l *level) find(key, value string) *Descriptor {
	if value != "" {
		if d := l.exact[pair{key, value}]; d != nil {
			return d
		}
	}
	for _, d := range l.wild {
		if d.Key == key && d.fits(value) {
			return d
		}
	}
	return l.bare[key]
}

// fits reports whether the value fits the descriptor's, whose * stand for any
// text. The parts between them are looked for from the left, which finds a fit
// if there is one, in one pass.
func (d *Descriptor) fits(value string) bool {
	first, last := d.parts[0], d.parts[len(d.parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	value = value[len(first) : len(value)-len(last)]
	for _, part := range d.parts[1 : len(d.parts)-1] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}

func (l *level) rules(yield func(*Rule)) {
	each := func(d *Descriptor) {
		if d.rule != nil {
			yield(d.rule)
		}
		d.below.rules(yield)
	}
	for _, d := range l.exact {
		each(d)
	}
	for _, d := range l.wild {
		each(d)
	}
	for _, d := range l.bare {
		each(d)
	}
}
