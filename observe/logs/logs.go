// Package logs writes what happens as lines that are safe to keep and to look at:
// no secret stands in them and no text that a terminal would obey.
package logs

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"github.com/weirhq/weir/observe"
)

// New returns a logger that writes lines of text, or of JSON, to w.
func New(w io.Writer, asJSON bool, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: clean}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

const redacted = "[redacted]"

// secrets are the words that name what must not be logged, whoever logs it.
var secrets = []string{"password", "secret", "token", "authorization", "cookie", "api_key", "apikey", "credential"}

// userinfo is what stands before the host of a URL: up to the last @ of the word,
// since a store's URL may have a password with a bare / or @ in it.
var userinfo = regexp.MustCompile(`(\w://)\S*@`)

// clean makes one attribute, or the message, safe. Names are ours, so they are
// looked at for words alone.
func clean(groups []string, a slog.Attr) slog.Attr {
	name := strings.ToLower(a.Key)
	for _, word := range secrets {
		if strings.Contains(name, word) {
			return slog.String(a.Key, redacted)
		}
	}
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(text(v.String()))
	case slog.KindAny:
		if _, source := v.Any().(*slog.Source); v.Any() == nil || source && len(groups) == 0 {
			return a
		}
		a.Value = slog.StringValue(text(fmt.Sprint(v.Any())))
	}
	return a
}

func text(s string) string {
	if strings.Contains(s, "@") {
		s = userinfo.ReplaceAllString(s, "${1}"+redacted+"@")
	}
	return observe.Harmless(s)
}
