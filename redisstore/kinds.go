package redisstore

// kind is one way in which a store fails to decide a bill. This table is the only
// place that says what a failure means: replies are sorted by it, the breaker and
// the limits' answers follow it, and the table in docs/failure.md is written from
// it (make docs-failure).
type kind struct {
	name  string   // weir.StoreError.Kind
	words []string // first words of the server's replies that mean it

	// outage: the server cannot be used at all, as opposed to an error of single
	// bills, so the breaker opens.
	outage bool
	// unreachable: no answer to a decision can be had there however long one
	// waits. Limits that answer open admit only then.
	unreachable bool

	when  string // what has happened, for the document
	after string // how it ends, for the document
}

var kinds = []kind{
	{name: "unreachable", outage: true, unreachable: true,
		when:  "nobody listens, the name does not resolve, or the connection broke",
		after: "the probe connects; names are resolved anew at every attempt"},
	{name: "tls", outage: true, unreachable: true,
		when:  "a certificate on either side has expired or is not trusted",
		after: "the probe connects under the new certificate"},
	{name: "timeout", outage: true,
		when:  "no answer within the decision's deadline, or half a connection that nobody answers on",
		after: "the probe is answered; a probe that is not makes it unreachable"},
	{name: "overloaded",
		when:  "the queue to the server is full",
		after: "with the next bill that finds room"},
	{name: "stale", words: []string{"STALE"},
		when:  "the script ran after the decision's deadline and charged nothing",
		after: "with the next bill"},
	{name: "canceled",
		when:  "the caller's context ended; the caller gets its error, not an answer",
		after: "with the next bill"},
	{name: "readonly", words: []string{"READONLY"}, outage: true,
		when:  "the server has become a replica",
		after: "the connection is dropped and made anew; the probe finds the new primary"},
	{name: "noreplicas", words: []string{"NOREPLICAS"}, outage: true,
		when:  "fewer replicas than min-replicas-to-write",
		after: "the probe may write"},
	{name: "misconf", words: []string{"MISCONF"}, outage: true,
		when:  "the server refuses writes because it cannot save to disk",
		after: "the probe may write"},
	{name: "oom", words: []string{"OOM"}, outage: true,
		when:  "maxmemory is reached and nothing may be evicted (Redis before 7; later ones let the script write)",
		after: "the probe may write"},
	{name: "noperm", words: []string{"NOPERM", "NOAUTH", "WRONGPASS"}, outage: true,
		when:  "the user or password is refused, or an ACL forbids the script",
		after: "the probe is permitted; at the start it is an error"},
	{name: "loading", words: []string{"LOADING"}, outage: true, unreachable: true,
		when:  "the server reads its data from disk",
		after: "the probe is answered"},
	{name: "masterdown", words: []string{"MASTERDOWN"}, outage: true, unreachable: true,
		when:  "a replica that has lost its primary",
		after: "the connection is dropped and made anew; the probe finds the new primary"},
	{name: "clusterdown", words: []string{"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN"}, outage: true, unreachable: true,
		when:  "nobody serves the slot. MOVED, ASK and TRYAGAIN are followed first: a reshard is no failure",
		after: "the probe is answered"},
	{name: "busy", words: []string{"BUSY"}, outage: true,
		when:  "somebody else's script has run for longer than busy-reply-threshold",
		after: "the probe is answered"},
	{name: "noscript", words: []string{"NOSCRIPT"},
		when:  "the server forgot the script between its text and its hash. Once is no failure: the text is sent",
		after: "with the next bill"},
	{name: "calendar", words: []string{"AGAIN"},
		when:  "the server's clock is outside the calendar periods that were sent, twice: the bill was asked again under its own clock",
		after: "with the next bill"},
	{name: "wrong_type", words: []string{"wrong_type", "WRONGTYPE"},
		when:  "the key of a balance holds something else; it is left as it is",
		after: "when somebody removes the key; Reset and Block refuse as well"},
	{name: "bad_state", words: []string{"bad_state"},
		when:  "the state of a balance does not parse; it is left as it is",
		after: "when somebody removes the key; Reset and Block refuse as well"},
	{name: "secret",
		when:  "key_secret_file differs from that of the other instances; an error at the start",
		after: "when all use the same"},
	{name: "unsupported",
		when:  "the store cannot do what was asked of it",
		after: "never"},
	{name: "other", outage: true,
		when:  "anything else the server or the way to it says",
		after: "the probe succeeds"},
}

// Kinds returns every Kind that a weir.StoreError of this store may have.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].name
	}
	return names
}

// kindOf and kindOfWord find a kind by its name and by the word of a reply.
var kindOf, kindOfWord = indexKinds()

func indexKinds() (byName, byWord map[string]*kind) {
	byName, byWord = make(map[string]*kind), make(map[string]*kind)
	for i := range kinds {
		k := &kinds[i]
		byName[k.name] = k
		for _, w := range k.words {
			byWord[w] = k
		}
	}
	return byName, byWord
}
