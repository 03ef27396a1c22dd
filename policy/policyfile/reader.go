package policyfile

import (
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The reader walks the nodes of a document beside the fields that may stand
// there. It was preferred to decoding into tagged structs because every fault is
// to be found in one pass, each with its own place and its own words, and
// because nothing in the file may be ignored: a misspelt on_missing would
// otherwise silently be the default.

// place is where something stands in the file.
type place struct{ line, column int }

type reader struct {
	file   string
	folder string // companion files are relative to it
	errs   Errors
	places map[string]place    // where each field stands, by path
	stated map[string]bool     // limits, by path, that say on_store_failure= themselves
	shapes map[string][]string // object → its fields, for the test of the schema
	budget int                 // nodes still to be read, aliases written out
	read   []string            // companion files
	sum    hash.Hash           // of the file and its companions
}

// maxNodes bounds what a file may grow to when its aliases are written out.
const maxNodes = 400_000

// field is a field that an object may have.
type field struct {
	name string
	read func(n *node, path string)
}

func (r *reader) fail(n *node, format string, args ...any) {
	r.errs = append(r.errs, &Error{r.file, max(n.line, 1), max(n.column, 1), fmt.Sprintf(format, args...)})
}

// enter notes where path stands. It returns nil when there is nothing to read.
func (r *reader) enter(n *node, path string) *node {
	if _, ok := r.places[path]; !ok {
		r.places[path] = place{n.line, n.column}
	}
	if r.budget--; r.budget < 0 {
		if r.budget == -1 {
			r.fail(n, "the file is too large when its aliases are written out")
		}
		return nil
	}
	return n
}

func isNull(n *node) bool { return n.kind == null }

// object reads a mapping with known fields. what names it in messages and in the
// schema.
func (r *reader) object(n *node, path, what string, fields []field) bool {
	if r.shapes != nil {
		r.shapes[what] = names(fields)
	}
	n = r.enter(n, path)
	if n == nil || isNull(n) {
		return false
	}
	if n.kind != mapping {
		r.fail(n, "%s must have fields: %s", what, strings.Join(names(fields), " "))
		return false
	}
	seen := map[string]*node{}
	for i := 0; i+1 < len(n.items); i += 2 {
		key, value := n.items[i], n.items[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.text })
		switch first := seen[key.text]; {
		case key.kind >= sequence || key.kind == null:
			r.fail(key, "a field of %s must be a word", what)
		case at < 0:
			r.fail(key, "unknown field %q in %s%s", clip(key.text), what, didYouMean(key.text, names(fields)))
		case first != nil:
			r.fail(key, "field %q stands twice; the first is on line %d", key.text, first.line)
		default:
			seen[key.text] = key
			r.places[join(path, key.text)] = place{key.line, key.column}
			fields[at].read(value, join(path, key.text))
			// The value is the better place to point at.
			if value.line > 0 && !isNull(value) {
				r.places[join(path, key.text)] = place{value.line, value.column}
			}
		}
	}
	return true
}

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// entries reads a mapping with free keys. Keys that may be secret are never
// quoted in messages.
func (r *reader) entries(n *node, path, what string, secret bool, read func(key string, k, v *node, path string)) {
	n = r.enter(n, path)
	if n == nil || isNull(n) {
		return
	}
	if n.kind != mapping {
		r.fail(n, "%s must be pairs of a name and a value", what)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.items); i += 2 {
		k, v := n.items[i], n.items[i+1]
		name := "this name"
		if !secret {
			name = strconv.Quote(clip(k.text))
		}
		switch first, twice := seen[k.text]; {
		case k.kind >= sequence || isNull(k) || k.text == "":
			r.fail(k, "a name in %s must be a word", what)
		case twice:
			r.fail(k, "%s stands twice in %s; the first is on line %d", name, what, first)
		default:
			seen[k.text] = k.line
			r.places[join(path, k.text)] = place{k.line, k.column}
			read(k.text, k, v, join(path, k.text))
		}
	}
}

// list reads a sequence.
func (r *reader) list(n *node, path, what string, read func(n *node, path string)) {
	n = r.enter(n, path)
	if n == nil || isNull(n) {
		return
	}
	if n.kind != sequence {
		if n.kind < sequence {
			r.fail(n, "%s must be a list; write [%s]", what, clip(n.text))
		} else {
			r.fail(n, "%s must be a list", what)
		}
		return
	}
	for i, item := range n.items {
		read(item, path+"["+strconv.Itoa(i)+"]")
	}
}

// texts reads a list of words, each at most once.
func (r *reader) texts(n *node, path, what string) []string {
	var out []string
	seen := map[string]bool{}
	r.list(n, path, what, func(n *node, path string) {
		s, ok := r.scalar(n, path)
		if !ok {
			return
		}
		if seen[s] {
			r.fail(n, "%q stands twice in %s", clip(s), what)
			return
		}
		seen[s] = true
		out = append(out, s)
	})
	r.notEmpty(n, what, len(out))
	return out
}

// notEmpty refuses an empty list where it would read like "nothing" and mean
// "everything".
func (r *reader) notEmpty(n *node, what string, count int) {
	switch {
	case isNull(n):
		r.fail(n, "%s has no value", what)
	case count == 0 && n.kind == sequence && len(n.items) == 0:
		r.fail(n, "%s is an empty list; leave the field out", what)
	}
}

// scalar reads a word. Whole numbers pass as they are written, so that a tenant
// may be called 42; what YAML takes for something else must be quoted.
func (r *reader) scalar(n *node, path string) (string, bool) {
	n = r.enter(n, path)
	switch {
	case n == nil:
		return "", false
	case isNull(n):
		r.fail(n, "%s has no value", last(path))
		return "", false
	case n.kind >= sequence:
		r.fail(n, "%s must be a single value", last(path))
		return "", false
	case n.kind != text && n.kind != number:
		r.fail(n, "YAML does not read %s as text; write it in quotes: %q", clip(n.text), clip(n.text))
		return "", false
	}
	return n.text, true
}

// scalarTo and its kin return readers that store what they read. A setting without
// a value keeps its default.
func (r *reader) scalarTo(to *string) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		if s, ok := r.scalar(n, path); ok {
			if s == "" {
				r.fail(n, "%s is empty; leave the field out", last(path))
			}
			*to = s
		}
	}
}

// word reads one of a few words.
func (r *reader) word(n *node, path string, words ...string) string {
	s, ok := r.scalar(n, path)
	if !ok {
		return ""
	}
	if !slices.Contains(words, s) {
		r.fail(n, "unknown word %q%s", clip(s), didYouMean(s, words))
		return ""
	}
	return s
}

func (r *reader) wordTo(to *string, words ...string) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		if s := r.word(n, path, words...); s != "" {
			*to = s
		}
	}
}

func (r *reader) truth(n *node, path string) (bool, bool) {
	n = r.enter(n, path)
	if n == nil {
		return false, false
	}
	if n.kind != boolean {
		r.fail(n, "%s must be true or false", last(path))
		return false, false
	}
	return n.text == "true", true
}

func (r *reader) truthTo(to *bool) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		if b, ok := r.truth(n, path); ok {
			*to = b
		}
	}
}

// integer reads a whole number within bounds.
func (r *reader) integer(n *node, path string, least, most int64) (int64, bool) {
	n = r.enter(n, path)
	if n == nil {
		return 0, false
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	if digits := strings.TrimLeft(n.text, "+-"); len(digits) > 1 && digits[0] == '0' && err == nil {
		r.fail(n, "%s is %s, which some read as decimal and others as octal; write it without the leading 0", last(path), n.text)
		return 0, false
	}
	if n.kind != number || err != nil || i < least || i > most {
		r.fail(n, "%s must be a whole number from %d to %d", last(path), least, most)
		return 0, false
	}
	return i, true
}

func (r *reader) integerTo(to *int, least, most int64) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		if i, ok := r.integer(n, path, least, most); ok {
			*to = int(i)
		}
	}
}

// percentTo reads 20%, 0.5% or 0.
func (r *reader) percentTo(to *Percent, most Percent) func(*node, string) {
	return func(n *node, path string) {
		n = r.enter(n, path)
		if n == nil || isNull(n) {
			return
		}
		p, ok := parsePercent(n.text)
		if n.kind >= sequence || !ok || p > most {
			r.fail(n, "%s must be a percentage from 0%% to %d%%, such as 20%% or 0.5%%", last(path), most/100)
			return
		}
		*to = p
	}
}

func parsePercent(s string) (Percent, bool) {
	if s == "0" {
		return 0, true
	}
	number, ok := strings.CutSuffix(s, "%")
	whole, fraction, dot := strings.Cut(number, ".")
	if !ok || whole == "" || len(whole) > 6 || len(fraction) > 2 || dot && fraction == "" ||
		strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false
	}
	for len(fraction) < 2 {
		fraction += "0"
	}
	n, err := strconv.Atoi(whole + fraction)
	return Percent(n), err == nil
}

// short writes a duration as one would: 1m, not 1m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// durationTo reads 50ms, 2s or 1m.
func (r *reader) durationTo(to *time.Duration, least, most time.Duration) func(*node, string) {
	return func(n *node, path string) {
		if isNull(n) {
			return
		}
		s, ok := r.scalar(n, path)
		if !ok {
			return
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			example := max(least, min(50*time.Millisecond, most))
			r.fail(n, "%s must be a duration from %s to %s, such as %s", last(path), short(least), short(most), short(example))
			return
		}
		*to = d
	}
}

// clip makes text of the file fit for a message: one line, and not a long one.
func clip(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
