package weir

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Near misses: what people write who know limits from elsewhere. Each guess is
// made of rewritings that keep the meaning, and is only shown if it parses.

// nearLimit returns what s was likely meant to be, or "". Names and zones are
// left as they are.
func nearLimit(s string) string {
	if len(s) > 200 {
		return ""
	}
	t := strings.Join(strings.Fields(s), " ")
	kept := ""
	for _, own := range []string{" name=", " tz="} {
		if i := strings.Index(t, own); i >= 0 {
			t, kept = t[:i], t[i:]+kept
		}
	}
	t = strings.ToLower(t)
	if number := marked().FindString(t); number != "" {
		t = strings.NewReplacer(",", "", "_", "", "'", "", " ", "").Replace(number) + t[len(number):]
	}
	for _, r := range rewritings() {
		t = r.from.ReplaceAllString(t, r.to)
	}
	head, tail, _ := strings.Cut(t, " ")
	count, per, _ := strings.Cut(head, "/")
	if word, rest, _ := strings.Cut(tail, " "); strings.Trim(per, "0123456789") == "" {
		if _, ok := units[word]; ok {
			per, tail = per+word, rest // 10/30 s
		}
	}
	per = wholePeriod(strings.TrimRight(per, "."))
	count, per = wholeCount(count, per)
	guess := strings.TrimSuffix(count+"/"+per, "/")
	if tail != "" {
		guess += " " + tail
	}
	guess += kept
	if _, problem := parseLimit(guess); problem == "" && guess != s {
		return guess
	}
	return ""
}

type rewriting struct {
	from *regexp.Regexp
	to   string
}

// marked is a number with marks between its thousands, which are then dropped.
var marked = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,3}([,_' ]\d{3})+`) })

// rewritings are applied in order, to text in lower case with single spaces. They
// are made when the first error asks for them.
var rewritings = sync.OnceValue(func() (all []rewriting) {
	const units = `(?:requests?|reqs?|r|calls?|hits?|times?|quer(?:y|ies)|tokens?)`
	for _, r := range [][2]string{
		{`^(\d+)k\b`, "${1}000"},
		{`^([\d.]+) ?[rtq]ps\b`, "$1/s"}, {`^([\d.]+) ?rpm\b`, "$1/min"}, {`^([\d.]+) ?rph\b`, "$1/h"},
		{`_per_`, " per "},
		{`^([\d.]+) ?` + units + `?(?: ?/ ?| per | an? | each | every )(?:per )?(?:an? )?`, "$1/"},
		{`\bhrs?\b`, "h"}, {`(\d)hrs?\b`, "${1}h"}, {`\(s\)`, "s"},
		{` ?= ?`, "="}, {`\b(burst|algorithm|on_store_failure)(?:: ?| (\w))`, "$1=$2"},
		{`,`, " "}, {` +`, " "},
		{`\b(sliding|fixed|token|leaky)-(window|log|bucket)\b`, "${1}_$2"},
	} {
		all = append(all, rewriting{regexp.MustCompile(r[0]), r[1]})
	}
	return all
})

// wholePeriod spells a period such as 0.5s or 1m30s in whole units.
func wholePeriod(per string) string {
	d, err := time.ParseDuration(per)
	if err != nil || d < time.Millisecond || d%time.Millisecond != 0 {
		return per
	}
	if digits := strings.TrimLeft(per, "0123456789"); digits == "s" || digits == "m" || digits == "h" || digits == "ms" {
		return per
	}
	return periodString(d.Microseconds())
}

// wholeCount spells a count such as 5.5 as one of whole units in a longer period.
func wholeCount(count, per string) (string, string) {
	whole, fraction, ok := strings.Cut(count, ".")
	if !ok || len(whole)+len(fraction) > 9 || whole == "" || fraction == "" {
		return count, per
	}
	digits := len(per) - len(strings.TrimLeft(per, "0123456789"))
	unit := per[digits:]
	n, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || n == 0 || len(per[:digits]) > 4 {
		return count, per
	}
	m := int64(1)
	if digits > 0 {
		if m, err = strconv.ParseInt(per[:digits], 10, 64); err != nil {
			return count, per
		}
	}
	for range fraction {
		m *= 10
	}
	common, rest := n, m
	for rest != 0 {
		common, rest = rest, common%rest
	}
	n, m = n/common, m/common
	if m == 1 {
		return strconv.FormatInt(n, 10), unit
	}
	return strconv.FormatInt(n, 10), strconv.FormatInt(m, 10) + unit
}
