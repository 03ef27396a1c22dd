package directory

import (
	"errors"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirhq/weir"
)

// A value that cannot be used must not take a limit away: whoever mistypes an
// override at night leaves the one before it in force. So the good fields of a
// hash are remembered for as long as the hash is there. A field that is removed
// is removed; only a bad value is passed over.

// kept is what is remembered of a hash. Its maps are never changed.
type kept struct {
	good map[string]string
	bad  map[string]string // bad values by field, so that each is told of once
}

// check says what is wrong with the value of a field, or nothing. A field that
// we do not read is somebody else's, and good.
type check func(field, value string) (problem string, ours bool)

func checkKeyField(field, value string) (problem string, ours bool) {
	switch field {
	case "tenant", "plan":
		return checkName(value), true
	case "disabled":
		if _, ok := readTruth(value); !ok {
			return "is neither true nor false", true
		}
		return "", true
	}
	return "", false
}

func checkTenantField(field, value string) (problem string, ours bool) {
	if field == "plan" {
		return checkName(value), true
	}
	if _, ok := ruleOf(field); !ok {
		return "", false
	}
	_, err := weir.ParseLimit(value)
	var wrong *weir.InputError
	switch {
	case err == nil:
		return "", true
	case errors.As(err, &wrong):
		return wrong.Problem, true
	}
	return err.Error(), true
}

// ruleOf returns RULE of limit:RULE.
func ruleOf(field string) (rule string, ok bool) {
	rule, ok = strings.CutPrefix(field, "limit:")
	return rule, ok && rule != ""
}

const maxName = 256

// checkName checks the name of a tenant or a plan.
func checkName(s string) string {
	switch {
	case len(s) > maxName:
		return "is longer than 256 bytes"
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return "is no text"
	}
	return ""
}

// readTruth reads what people write for yes and no.
func readTruth(s string) (truth, ok bool) {
	switch strings.ToLower(s) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off", "":
		return false, true
	}
	return false, false
}

// keep takes note of a hash as it was read and returns its fields, with the last
// good values in place of bad ones. found is whether there is such a hash.
func (d *Directory) keep(key string, raw map[string]string, check check) (fields map[string]string, found bool) {
	d.mu.Lock()
	was, have := d.kept[key]
	is := kept{good: make(map[string]string, len(raw))}
	var told []Bad
	for field, value := range raw {
		problem, ours := check(field, value)
		switch {
		case !ours:
		case problem == "":
			is.good[field] = value
		default:
			if last, ok := was.good[field]; ok {
				is.good[field] = last
			}
			if is.bad == nil {
				is.bad = make(map[string]string)
			}
			is.bad[field] = value
			if before, ok := was.bad[field]; !ok || before != value {
				told = append(told, Bad{key, field, problem})
			}
		}
	}
	switch {
	case len(raw) == 0:
		delete(d.kept, key)
	case !have || !maps.Equal(is.good, was.good) || !maps.Equal(is.bad, was.bad):
		d.put(key, is)
	}
	d.mu.Unlock()
	d.tell(told)
	return is.good, len(raw) > 0
}

// keepAll takes note of a key that holds no hash and returns the last good
// fields of the one it held.
func (d *Directory) keepAll(key string) (fields map[string]string, found bool) {
	d.mu.Lock()
	was := d.kept[key]
	var told []Bad
	if _, known := was.bad[""]; !known {
		told = []Bad{{key, "", "is no hash"}}
		d.put(key, kept{good: was.good, bad: map[string]string{"": ""}})
	}
	d.mu.Unlock()
	d.tell(told)
	return was.good, was.good != nil
}

// put remembers a hash. At the bound some other is forgotten: all that is lost
// is its last good values, should one of its own turn bad.
func (d *Directory) put(key string, is kept) {
	if _, have := d.kept[key]; !have && len(d.kept) >= d.most {
		for other := range d.kept {
			delete(d.kept, other)
			break
		}
	}
	d.kept[key] = is
}

func (d *Directory) tell(told []Bad) {
	d.bad.Add(uint64(len(told)))
	if d.onBad == nil {
		return
	}
	for _, b := range told {
		d.onBad(b)
	}
}
