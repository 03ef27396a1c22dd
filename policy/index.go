package policy

import (
	"math/bits"
	"slices"
	"strings"
)

// The index keeps a thousand rules as cheap as ten: it names the few rules that
// may match a request, and only those are tried in full.
//
//	path   trie of the patterns' segments up to their first **
//	host   exact names, and ".example.com" for the names below
//	tenant, plan, method
//
// Every rule stands in one of these only, the one where it shares its places
// with the fewest others: a thousand rules on one path, each for its own tenant,
// stand under their tenants. Rules that no dimension tells apart (no conditions,
// or only ips and headers) are tried always. Being a candidate promises nothing;
// not being one is certain.
type index struct {
	root    node
	hosts   map[string][]int
	tenants map[string][]int
	plans   map[string][]int
	methods map[string][]int
	always  []int
	size    int
}

// node is a place in the trie of path segments.
type node struct {
	literal map[string]*node
	star    *node
	ends    []int // rules with a pattern that ends here
	deep    []int // rules with a pattern that goes on with **
}

// candidates is a set of rules; iterating it is their order.
type candidates []uint64

func (c candidates) add(rules []int) {
	for _, i := range rules {
		c[i/64] |= 1 << (i % 64)
	}
}

func (c candidates) all(yield func(int) bool) {
	for w, word := range c {
		for ; word != 0; word &= word - 1 {
			if !yield(w*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// dimension is one way to tell rules apart: the places that a rule's conditions
// put it in; none means that the dimension says nothing about the rule.
type dimension func(*conditions) []string

var dimensions = [...]dimension{
	func(c *conditions) []string {
		var places []string
		for i := range c.paths {
			places = append(places, place(&c.paths[i]))
		}
		return places
	},
	func(c *conditions) []string { return c.hosts },
	func(c *conditions) []string { return c.tenants },
	func(c *conditions) []string { return c.plans },
	func(c *conditions) []string { return c.methods },
}

// place is the part of a pattern that the trie can follow.
func place(p *pattern) string {
	if i := slices.Index(p.segments, "**"); i >= 0 {
		return strings.Join(p.segments[:i], "/") + "/**"
	}
	return strings.Join(p.segments, "/")
}

func buildIndex(list []conditions) *index {
	x := &index{
		hosts: map[string][]int{}, tenants: map[string][]int{},
		plans: map[string][]int{}, methods: map[string][]int{}, size: len(list),
	}
	var crowd [len(dimensions)]map[string]int
	for d, places := range dimensions {
		crowd[d] = map[string]int{}
		for i := range list {
			for _, p := range places(&list[i]) {
				crowd[d][p]++
			}
		}
	}
	for i := range list {
		x.enter(i, &list[i], least(&list[i], &crowd))
	}
	return x
}

// least returns the dimension in which c shares its most crowded place with the
// fewest other rules, or -1.
func least(c *conditions, crowd *[len(dimensions)]map[string]int) int {
	best, fewest := -1, 0
	for d, places := range dimensions {
		most := 0
		for _, p := range places(c) {
			most = max(most, crowd[d][p])
		}
		if most > 0 && (best < 0 || most < fewest) {
			best, fewest = d, most
		}
	}
	return best
}

func (x *index) enter(rule int, c *conditions, d int) {
	put := func(m map[string][]int, places []string) {
		for _, p := range places {
			m[p] = append(m[p], rule)
		}
	}
	switch d {
	case 0:
		for i := range c.paths {
			x.root.enter(rule, c.paths[i].segments)
		}
	case 1:
		put(x.hosts, c.hosts)
	case 2:
		put(x.tenants, c.tenants)
	case 3:
		put(x.plans, c.plans)
	case 4:
		put(x.methods, c.methods)
	default:
		x.always = append(x.always, rule)
	}
}

func (n *node) enter(rule int, segments []string) {
	switch {
	case len(segments) == 0:
		n.ends = append(n.ends, rule)
	case segments[0] == "**":
		n.deep = append(n.deep, rule)
	case segments[0] == "*":
		if n.star == nil {
			n.star = &node{}
		}
		n.star.enter(rule, segments[1:])
	default:
		next := n.literal[segments[0]]
		if next == nil {
			if n.literal == nil {
				n.literal = map[string]*node{}
			}
			next = &node{}
			n.literal[segments[0]] = next
		}
		next.enter(rule, segments[1:])
	}
}

// find adds to c the rules that may match q.
func (x *index) find(c candidates, q *request) {
	c.add(x.always)
	x.root.find(c, q.path[1:])
	if len(x.hosts) > 0 {
		c.add(x.hosts[q.host])
		for rest := q.host; ; {
			i := strings.IndexByte(rest, '.')
			if i < 0 {
				break
			}
			c.add(x.hosts[rest[i:]])
			rest = rest[i+1:]
		}
	}
	if len(x.tenants) > 0 {
		c.add(x.tenants[q.caller.Tenant])
	}
	if len(x.plans) > 0 {
		c.add(x.plans[q.caller.Plan])
	}
	if len(x.methods) > 0 {
		c.add(x.methods[q.method])
	}
}

// find follows the text and the * of every segment. Both ways are taken, but
// each node at most once, since a node is reached by one way only.
func (n *node) find(c candidates, rest string) {
	c.add(n.deep)
	if rest == "" {
		c.add(n.ends)
		return
	}
	segment, rest := cut(rest)
	if next := n.literal[segment]; next != nil {
		next.find(c, rest)
	}
	if n.star != nil {
		n.star.find(c, rest)
	}
}
