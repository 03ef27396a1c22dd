package weir_test

import (
	"slices"
	"strings"
	"testing"
)

// The rules of the house, checked. Each rule carries a planted fault: a small
// tree that breaks it, so that a rule which can no longer fail is itself a
// failure. The map of rooms that the first rule enforces is rooms, below.

const module = "github.com/weirhq/weir"

// room is one line of the map: who may import whom. A room that is not in the
// map is a fault, so that a new one is placed on purpose.
type room struct {
	dir     string // "" is the root; a trailing /... takes in what lies below
	imports string // rooms it may import, in the same notation; * is any; root brings algo
	outside bool   // may import modules of others
	serves  bool   // may start goroutines
	tests   bool   // is for tests: may import testing, and only tests import it
}

var rooms = []room{
	{dir: "algo"},
	{dir: "internal/prefetch"},
	{dir: "", imports: "algo internal/prefetch"},
	{dir: "internal/batch", imports: "root", serves: true},
	{dir: "internal/redisconn", outside: true, serves: true},
	{dir: "redisstore/...", imports: "root internal/batch internal/redisconn redisstore/...", outside: true},
	{dir: "regions", imports: "root policy redisstore internal/redisconn", outside: true, serves: true},
	{dir: "directory", imports: "root identity policy internal/redisconn", outside: true, serves: true},
	{dir: "layer/lease", imports: "root", serves: true},
	{dir: "layer/...", imports: "root layer/..."},
	{dir: "verify", imports: "root", serves: true},
	{dir: "storetest", imports: "root verify", serves: true, tests: true},
	{dir: "identity"},
	{dir: "identity/jwt", imports: "identity", outside: true},
	{dir: "policy", imports: "root identity"},
	{dir: "policy/policyfile", imports: "root identity policy", outside: true, serves: true}, // watches its file
	{dir: "gate", imports: "root identity policy"},
	{dir: "headers", imports: "root"},
	{dir: "httplimit", imports: "root identity gate headers"},
	{dir: "grpclimit", imports: "root identity gate headers", outside: true},
	{dir: "internal/door/...", imports: "root identity gate headers observe/... internal/door/...", outside: true, serves: true},
	{dir: "internal/door/admin", imports: "root identity policy gate headers sim observe/... internal/door/...", outside: true, serves: true},
	{dir: "observe/stream", imports: "root observe internal/redisconn", outside: true, serves: true},
	{dir: "observe/...", imports: "root internal/prefetch observe/...", outside: true},
	{dir: "sim/regional", imports: "root policy redisstore regions sim", outside: true},
	{dir: "sim/...", imports: "root identity policy gate layer/... sim/...", outside: true, serves: true},
	{dir: "internal/loadgen", outside: true, serves: true}, // knows no limiter: it puts load on whatever is asked
	{dir: "internal/migrate", outside: true},               // other programs' limits to the text of a policy
	{dir: "internal/daemon", imports: "*", outside: true, serves: true},
	{dir: "internal/cli/...", imports: "*", outside: true, serves: true},
	{dir: "cmd/...", imports: "*", outside: true, serves: true},
	{dir: "internal/testredis", outside: true, serves: true, tests: true},
	{dir: "internal/faults", imports: "*", outside: true, serves: true, tests: true},
	{dir: "internal/doorcost", serves: true, tests: true},
	{dir: "internal/mainjob", imports: "*", outside: true, serves: true, tests: true},
}

// long lists the files of more than 400 lines, each with its reason.
var long = map[string]string{}

// panics lists the production files that may panic, each with its reason.
var panics = map[string]string{
	"internal/daemon/httpserver.go": "keeps a panic from going further than its request, in the way net/http asks for",
	"redisstore/script.go":          "an embedded file cannot be missing at run time",
}

// rule is one rule of the house.
type rule struct {
	name  string
	check func(h *house) []string
	fault string // a tree that breaks it: "== path" lines, each before a file
	want  string // part of what check says to it
}

var rules = []rule{
	{
		name: "rooms import only what the map allows", check: importsFollowMap,
		fault: "== gate/gate.go\n// Package gate is.\npackage gate\nimport _ \"" + module + "/headers\"\n",
		want:  "gate/gate.go: gate may not import headers",
	},
	{
		name: "the inner rooms import no modules of others", check: importsFollowMap,
		fault: "== algo/a.go\npackage algo\nimport _ \"github.com/redis/rueidis\"\n",
		want:  "algo/a.go: algo may import the standard library and ours alone, not github.com/redis/rueidis",
	},
	{
		name: "every room is in the map", check: importsFollowMap,
		fault: "== attic/a.go\npackage attic\n",
		want:  "attic is not in the map",
	},
	{
		name: "production imports nothing of tests", check: importsFollowMap,
		fault: "== internal/cli/a.go\npackage cli\nimport _ \"" + module + "/internal/testredis\"\n",
		want:  "internal/cli may not import internal/testredis, which is for tests",
	},
	{
		name: "production does not import testing", check: noTestingInProduction,
		fault: "== verify/v.go\npackage verify\nimport _ \"testing/quick\"\n",
		want:  "verify/v.go: imports testing/quick",
	},
	{
		name: "one package comment a room", check: onePackageComment,
		fault: "== gate/a.go\n// Package gate is.\npackage gate\n== gate/b.go\n// Package gate is not.\npackage gate\n",
		want:  "gate has 2 package comments",
	},
	{
		name: "at most 40 exported names in the root", check: fewRootNames,
		fault: "== many.go\npackage weir\nconst (\n" + manyNames(41) + ")\n",
		want:  "41 exported names",
	},
	{
		name: "package names say what is inside", check: tellingNames,
		fault: "== internal/util/a.go\npackage util\n",
		want:  "internal/util/a.go: util says nothing",
	},
	{
		name: "no floats where decisions are made", check: noFloats,
		fault: "== algo/a.go\npackage algo\nvar x = 0.5\n",
		want:  "algo/a.go:2: a float",
	},
	{
		name: "goroutines only where the map says", check: goroutinesFollowMap,
		fault: "== a.go\npackage weir\nfunc f() { go f() }\n",
		want:  "a.go:2: the root starts no goroutines",
	},
	{
		name: "no panic crosses a boundary", check: noPanics,
		fault: "== gate/a.go\npackage gate\nfunc f() { panic(1) }\n",
		want:  "gate/a.go:2: panics",
	},
	{
		name: "nothing is left for later", check: nothingLeftOver,
		fault: "== a.lua\n-- " + "TO" + "DO: the rest\n",
		want:  "a.lua:1: " + "TO" + "DO",
	},
	{
		name: "files of over 400 lines have a reason", check: shortFiles,
		fault: "== gate/a.go\npackage gate\n" + strings.Repeat("//\n", 400),
		want:  "gate/a.go has 401 lines",
	},
	{
		name: "the list of long files is true", check: shortFiles,
		fault: "== gone.go\npackage weir\n",
		want:  "", // filled in by TestRules: needs a list of its own
	},
	{
		name: "no paths or hosts of one machine", check: noMachinePaths,
		fault: "== a.md\nsee /" + "work/main\n",
		want:  "a.md:1: names",
	},
	{
		name: "tests do not sleep", check: noSleepingTests,
		fault: "== a_test.go\npackage weir\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
		want:  "a_test.go:3: time.Sleep",
	},
	{
		name: "tests do not skip", check: noSkippedTests,
		fault: "== a_test.go\npackage weir\nimport \"testing\"\nfunc f(t *testing.T) { t.Skipf(\"\") }\n",
		want:  "a_test.go:3: t.Skipf",
	},
}

func TestRules(t *testing.T) {
	h := readHouse(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(h) {
				t.Error(finding)
			}
		})
	}
}

// TestRulesCanFail shows each rule a tree that breaks it.
func TestRulesCanFail(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if r.want == "" {
				long["nowhere.go"] = "planted"
				defer delete(long, "nowhere.go")
				r.want = "nowhere.go is listed as long"
			}
			findings := r.check(plantedHouse(t, r.fault))
			if !slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, r.want) }) {
				t.Errorf("the planted fault was not found; said %q, want %q", findings, r.want)
			}
		})
	}
}
