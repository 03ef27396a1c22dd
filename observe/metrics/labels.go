package metrics

import "github.com/weirhq/weir"

// Labels are bounded: each has one of the words below, or the name of one of at
// most 1,000 rules. Nothing that a caller chooses is a label.
//
// A rule has at most outcomes × sources × doors = 504 decision series; those
// that are to be expected exist from the start, at 0.

// maxRules is how many rules are told apart. Those beyond are otherRule.
const (
	maxRules  = 1000
	otherRule = "other"
	noRule    = "none" // refused without one
)

// outcomes are admitted, and the reasons for anything else.
var outcomes = [...]string{"admitted", "limited", "too_large", "blocked", "missing", "failed_open", "failed_closed"}

const (
	admitted = "admitted"
	denied   = "denied"
)

func outcome(d *weir.Decision) int {
	if i := int(d.Reason); i < len(outcomes) {
		return i
	}
	return int(weir.Limited)
}

// verdict is what a charge that decides nothing would have answered.
func verdict(d *weir.Decision) string {
	if d.Allowed {
		return admitted
	}
	return denied
}

var sources = [...]string{"memory", "redis", "deny_cache", "lease", "local", "none", "share", "other"}

func source(s string) int {
	for i, word := range sources {
		if s == word {
			return i
		}
	}
	return len(sources) - 1
}

var doors = [...]string{"http", "auth", "proxy", "httplimit", "grpclimit", "grpc", "resp", "go", "other"}

func door(s string) int {
	for i, word := range doors {
		if s == word {
			return i
		}
	}
	return len(doors) - 1
}

// errorKinds are those of weir.StoreError: what redisstore tells, held to its table
// by a test.
var errorKinds = [...]string{
	"unreachable", "tls", "timeout", "overloaded", "stale", "canceled", "readonly", "noreplicas", "misconf", "oom", "noperm",
	"loading", "masterdown", "clusterdown", "busy", "noscript", "calendar", "wrong_type", "bad_state", "secret", "unsupported",
	"other",
}

func errorKind(s string) string {
	for _, word := range errorKinds {
		if s == word {
			return word
		}
	}
	return "other"
}
