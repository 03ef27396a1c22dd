package identity

// Part is one part of a key: what callers are told apart by.
type Part struct {
	kind partKind
	name string // of a header, cookie, query parameter or attribute
	bits uint8  // of "ip/48": the IPv6 prefix, instead of the configured one
	fold bool   // ASCII letters lower-cased, spaces around dropped
}

type partKind uint8

// Source is what key parts are read from. Path is the reading of the path that
// the rule is judged under (see AppendReadings), Route the pattern that matched.
type Source struct {
	Call   *Call
	Caller *Caller
	Path   string
	Route  string
}
