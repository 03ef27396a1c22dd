package api

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// maxKey bounds a key, in bytes.
const maxKey = 1024

// Key reads a key: 1 to 1,024 bytes.
func (b *Body) Key() (string, error) {
	key, err := b.Text()
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", Wrong("is empty")
	case len(key) > maxKey:
		return "", Wrong(fmt.Sprintf("has %d bytes; at most %d are allowed", len(key), maxKey))
	}
	return key, nil
}

// Null steps over null, if that stands here, and reports whether it did.
func (b *Body) Null() bool {
	null := b.peek() == 'n'
	if null {
		b.skip()
	}
	return null
}

// Cost reads a cost of at least least.
func (b *Body) Cost(least int64) (int64, error) {
	n, err := b.Whole()
	switch {
	case err != nil:
		return 0, err
	case n < least || n > algo.MaxCost:
		return 0, Wrong(fmt.Sprintf("must lie between %d and %d", least, int64(algo.MaxCost)))
	}
	return n, nil
}

var limitFields = []string{"rate", "burst", "algorithm", "name", "on_store_failure", "tz"}

// lastLimit is a limit by its text. Callers repeat theirs.
type lastLimit struct {
	text  string
	limit weir.Limit
}

// Limit reads a limit, as a string or as an object with the same words.
func (b *Body) Limit() (weir.Limit, error) {
	var text string
	switch b.peek() {
	case '"':
		word, err := b.word()
		if err != nil {
			return weir.Limit{}, err
		}
		if b.last != nil && len(word) > 0 && b.last.text == string(word) {
			return b.last.limit, nil
		}
		text = string(word)
	case '{':
		s, err := b.limitObject()
		if err != nil {
			return weir.Limit{}, err
		}
		text = s
	default:
		return weir.Limit{}, Wrong(`must be a limit such as "100/min", or an object with rate`)
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		return l, unnamed(err)
	}
	if b.last != nil {
		*b.last = lastLimit{text, l}
	}
	return l, nil
}

// unnamed drops the field of err, which the caller names better.
func unnamed(err error) error {
	if input := (*weir.InputError)(nil); errors.As(err, &input) {
		return Wrong(input.Problem)
	}
	return err
}

// limitObject returns the object's words as a limit string. No value may hold a
// space, so none can bring in an option of its own.
func (b *Body) limitObject() (string, error) {
	words := make([]string, len(limitFields))
	err := b.Object(limitFields, func(field int) error {
		if limitFields[field] == "burst" {
			n, err := b.Whole()
			words[field] = fmt.Sprintf("burst=%d", n)
			return err
		}
		s, err := b.Text()
		switch {
		case err != nil:
			return err
		case s == "" || strings.ContainsAny(s, " \t\r\n"):
			return Wrong("must be one word")
		}
		if words[field] = s; field > 0 {
			words[field] = limitFields[field] + "=" + s
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if words[0] == "" {
		return "", Within("rate", Wrong("is missing"))
	}
	given := words[:0]
	for _, word := range words {
		if word != "" {
			given = append(given, word)
		}
	}
	return strings.Join(given, " "), nil
}

// Address reads an IP address.
func (b *Body) Address() (netip.Addr, error) {
	s, err := b.Text()
	if err != nil {
		return netip.Addr{}, err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, Wrong("must be an IP address, without a port")
	}
	return a, nil
}
