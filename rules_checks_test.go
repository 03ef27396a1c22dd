package weir_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// roomOf returns the line of the map for dir: an exact one, else the longest
// that takes it in.
func roomOf(dir string) (room, bool) {
	var best room
	found := false
	for _, r := range rooms {
		if r.dir == dir {
			return r, true
		}
		if within(dir, r.dir) && (!found || len(r.dir) > len(best.dir)) {
			best, found = r, true
		}
	}
	return best, found
}

// within reports whether dir is what pattern says: "root", a room, or a room
// and all below it.
func within(dir, pattern string) bool {
	if pattern == "root" {
		return dir == ""
	}
	if base, deep := strings.CutSuffix(pattern, "/..."); deep {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == pattern && pattern != ""
}

func (r *room) mayImport(dir string) bool {
	if r.imports == "*" {
		return true
	}
	may := strings.Fields(r.imports)
	if dir == "algo" && slices.Contains(may, "root") {
		return true // the words of the root's API: algo.Kind, algo.Verb
	}
	return slices.ContainsFunc(may, func(p string) bool { return within(dir, p) })
}

func nameOf(dir string) string { return cmp.Or(dir, "the root") }

// importsFollowMap holds the imports of every room against the map.
func importsFollowMap(h *house) (findings []string) {
	for f := range h.production {
		r, ok := roomOf(f.dir())
		if !ok {
			findings = append(findings, f.dir()+" is not in the map: add it to rooms and to ARCHITECTURE.md")
			continue
		}
		for _, spec := range f.syntax.Imports {
			if fault := r.faultOf(f.dir(), importPath(spec)); fault != "" {
				findings = append(findings, f.path+": "+fault)
			}
		}
	}
	return findings
}

// faultOf says what is wrong with importing p from dir, or "".
func (r *room) faultOf(dir, p string) string {
	ours, isOurs := strings.CutPrefix(p+"/", module+"/")
	first, _, _ := strings.Cut(p, "/")
	switch ours = strings.TrimSuffix(ours, "/"); {
	case !isOurs && strings.Contains(first, ".") && !r.outside:
		return nameOf(dir) + " may import the standard library and ours alone, not " + p
	case !isOurs:
		return ""
	case !r.tests && isForTests(ours):
		return nameOf(dir) + " may not import " + ours + ", which is for tests"
	case !r.mayImport(ours):
		return nameOf(dir) + " may not import " + nameOf(ours)
	}
	return ""
}

func isForTests(dir string) bool {
	r, ok := roomOf(dir)
	return ok && r.tests
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has unquoted it before
	return p
}

func noTestingInProduction(h *house) (findings []string) {
	for f := range h.production {
		for _, spec := range f.syntax.Imports {
			if p := importPath(spec); within(p, "testing/...") && !isForTests(f.dir()) {
				findings = append(findings, f.path+": imports "+p)
			}
		}
	}
	return findings
}

func onePackageComment(h *house) (findings []string) {
	comments := map[string]int{}
	for f := range h.production {
		n := 0
		if f.syntax.Doc != nil {
			n = 1
		}
		comments[f.dir()] += n
	}
	for dir, n := range comments {
		if n != 1 {
			findings = append(findings, fmt.Sprintf("%s has %d package comments", nameOf(dir), n))
		}
	}
	return findings
}

func fewRootNames(h *house) []string {
	const most = 40
	var names []string
	for f := range h.production {
		if f.dir() != "" {
			continue
		}
		for name := range f.syntax.Scope.Objects { // methods are not in it
			if token.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	if len(names) <= most {
		return nil
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("the root has %d exported names, over %d: %s", len(names), most, strings.Join(names, " "))}
}

func tellingNames(h *house) (findings []string) {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib"}
	for _, f := range h.files {
		if f.syntax != nil && slices.Contains(empty, f.syntax.Name.Name) {
			findings = append(findings, f.path+": "+f.syntax.Name.Name+" says nothing about what is inside")
		}
	}
	return findings
}

// noFloats keeps floats out of the rooms that decide.
func noFloats(h *house) (findings []string) {
	for f := range h.production {
		if dir := f.dir(); dir != "" && dir != "algo" && !within(dir, "layer/...") && dir != "internal/batch" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.FLOAT && strings.Contains(n.Value, ".") {
					findings = append(findings, h.at(f, n)+": a float")
				}
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					findings = append(findings, h.at(f, n)+": a float")
				}
			}
			return true
		})
	}
	return findings
}

func goroutinesFollowMap(h *house) (findings []string) {
	for f := range h.production {
		if r, ok := roomOf(f.dir()); !ok || r.serves {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				findings = append(findings, h.at(f, g)+": "+nameOf(f.dir())+" starts no goroutines")
			}
			return true
		})
	}
	return findings
}

func noPanics(h *house) (findings []string) {
	for f := range h.production {
		if panics[f.path] != "" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
					findings = append(findings, h.at(f, n)+": panics; return an error")
				}
			}
			return true
		})
	}
	return findings
}

// Words are put together here so that this file does not find itself.
var (
	leftOver    = regexp.MustCompile("TO" + "DO|FIX" + "ME|XX" + "X|not implement" + "ed|un" + "implemented")
	machinePath = regexp.MustCompile("/(wo" + "rk|fa" + "rm)/|bash_" + "jobs|proxy\\.go" + "lang|deb\\.deb" + "ian|registry\\.npm" + "js")
)

func nothingLeftOver(h *house) (findings []string) {
	for at, line := range h.lines {
		if m := leftOver.FindString(line); m != "" {
			findings = append(findings, at+": "+m)
		}
	}
	return findings
}

func noMachinePaths(h *house) (findings []string) {
	for at, line := range h.lines {
		if m := machinePath.FindString(line); m != "" {
			findings = append(findings, at+": names "+m)
		}
	}
	return findings
}

func shortFiles(h *house) (findings []string) {
	const most = 400
	met := map[string]bool{}
	for _, f := range h.files {
		if path.Ext(f.path) != ".go" && path.Ext(f.path) != ".lua" {
			continue
		}
		n := strings.Count(string(f.source), "\n")
		met[f.path] = n > most
		if n > most && long[f.path] == "" {
			findings = append(findings, fmt.Sprintf("%s has %d lines; split it or give the reason in long", f.path, n))
		}
	}
	for p := range long {
		if !met[p] {
			findings = append(findings, p+" is listed as long and is not")
		}
	}
	return findings
}

func noSleepingTests(h *house) []string {
	return h.callsInTests(func(on, name string) bool { return on == "time" && name == "Sleep" })
}

func noSkippedTests(h *house) []string {
	return h.callsInTests(func(_, name string) bool { return name == "Skip" || name == "Skipf" || name == "SkipNow" })
}

// callsInTests finds calls of methods and functions of packages in test files
// and rooms for tests.
func (h *house) callsInTests(is func(on, name string) bool) (findings []string) {
	for _, f := range h.files {
		if f.syntax == nil || !f.test() && !isForTests(f.dir()) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				on, _ := sel.X.(*ast.Ident)
				if on != nil && is(on.Name, sel.Sel.Name) {
					findings = append(findings, h.at(f, n)+": "+on.Name+"."+sel.Sel.Name)
				}
			}
			return true
		})
	}
	return findings
}
