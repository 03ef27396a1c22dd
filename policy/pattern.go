package policy

import (
	"slices"
	"strings"
)

// pattern is a compiled path pattern. Text is its canonical spelling, which is
// also the value of the key part route.
type pattern struct {
	text     string
	segments []string // literals, "*" and "**"
}

const maxSegments = 64

// compilePattern reads a pattern, or says what is wrong with it.
func compilePattern(s string) (pattern, string) {
	switch {
	case s == "":
		return pattern{}, "is empty; write a path such as /api/**"
	case s[0] != '/':
		return pattern{}, "must begin with /"
	case strings.ContainsAny(s, "?#"):
		return pattern{}, "is matched without the query; cut it off at " + s[strings.IndexAny(s, "?#"):][:1]
	}
	var p pattern
	for segment := range strings.SplitSeq(strings.TrimSuffix(s[1:], "/"), "/") {
		switch {
		case segment == "" && s == "/":
			continue
		case segment == "":
			return p, "has an empty segment; paths are cleaned of // before they are matched, so it would match nothing"
		case segment == "." || segment == "..":
			return p, "has a segment " + segment + "; paths are cleaned of it before they are matched, so it would match nothing"
		case strings.Contains(segment, "*") && segment != "*" && segment != "**":
			return p, "has a * beside other text; * stands for one whole segment and ** for any number of them"
		case strings.Contains(strings.ReplaceAll(strings.ToUpper(segment), "%2F", ""), "%"):
			return p, "is percent-encoded; write the plain text (only %2F stays encoded)"
		case segment == "**" && len(p.segments) > 0 && p.segments[len(p.segments)-1] == "**":
			return p, "has ** twice in a row; once is enough"
		}
		if len(p.segments) == maxSegments {
			return p, "has more than 64 segments"
		}
		p.segments = append(p.segments, strings.ReplaceAll(segment, "%2f", "%2F"))
	}
	p.text = "/" + strings.Join(p.segments, "/")
	return p, ""
}

// cut splits the first segment off a cleaned path without its leading slash.
// Such a path has no empty segment, so an empty rest is the end.
func cut(path string) (segment, rest string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return path, ""
}

// match reports whether the pattern covers a cleaned path. Only ** can stand
// for more than one segment, so it suffices to come back to the last one.
func (p *pattern) match(path string) bool {
	rest := path[1:]
	i, deep := 0, -1
	var retry string // what the last ** has not taken
	for {
		if i < len(p.segments) && p.segments[i] == "**" {
			deep, retry = i, rest
			i++
			continue
		}
		if rest == "" {
			break
		}
		segment, next := cut(rest)
		switch {
		case i < len(p.segments) && (p.segments[i] == "*" || p.segments[i] == segment):
			rest = next
			i++
		case deep >= 0:
			_, retry = cut(retry)
			rest, i = retry, deep+1
		default:
			return false
		}
	}
	return i == len(p.segments)
}

// moreSpecific orders patterns so that the first match is the closest one: at
// the first segment where they differ text comes before *, * before the end, and
// the end before **: /a is closer to /a than /a/** is.
func moreSpecific(p, q *pattern) int {
	for i := range max(len(p.segments), len(q.segments)) {
		if d := p.openness(i) - q.openness(i); d != 0 {
			return d
		}
	}
	return slices.Compare(p.segments, q.segments)
}

// openness says how much may stand at segment i.
func (p *pattern) openness(i int) int {
	switch {
	case i == len(p.segments):
		return 2
	case p.segments[i] == "**":
		return 3
	case p.segments[i] == "*":
		return 1
	}
	return 0
}
