package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/identity"
	"github.com/weirhq/weir/internal/door/api"
	"github.com/weirhq/weir/observe"
)

// Stepping in: a balance is forgotten, or refused for a while. It is named by
// its rule and the parts of its key, or by the key and limit of take, so that
// nobody has to know how keys are stored.

const longestBlock = 366 * 24 * time.Hour

// Done is the answer of /v1/reset, /v1/block and /v1/unblock.
type Done struct {
	Done bool `json:"done"`
	// Until is when a block ends, RFC 3339; none for the others.
	Until string `json:"until,omitempty"`
}

// named names a balance.
type named struct {
	key   string
	limit weir.Limit
	rule  string
	parts map[string]string
	by    string
	span  time.Duration
}

var namedFields = []string{"key", "limit", "rule", "parts", "by", "for"}

func readNamed(b *api.Body, blocks bool) (n named, err error) {
	given := map[string]bool{}
	fields := namedFields
	if !blocks {
		fields = fields[:5]
	}
	err = b.Object(fields, func(field int) (err error) {
		given[fields[field]] = true
		switch fields[field] {
		case "key":
			n.key, err = b.Key()
		case "limit":
			n.limit, err = b.Limit()
		case "rule":
			n.rule, err = b.Text()
		case "parts":
			n.parts = map[string]string{}
			return b.Dictionary(func(name string) (err error) {
				if b.Null() {
					n.parts[name] = identity.NoValue
					return nil
				}
				s, err := b.Text()
				if n.parts[name] = s; err == nil && s == identity.NoValue {
					err = api.Wrong("is no value; null names the balance of callers that have none")
				}
				return err
			})
		case "by":
			if n.by, err = b.Text(); len(n.by) > 64 {
				return api.Wrong("has more than 64 bytes")
			}
		case "for":
			var s string
			if s, err = b.Text(); err == nil {
				n.span, err = length(s, longestBlock)
			}
		}
		return err
	})
	missing := func(name string) error { return api.Within(name, api.Wrong("is missing")) }
	switch {
	case err != nil:
	case !given["key"] && !given["rule"]:
		err = api.Within("rule", api.Wrong("is missing; name a balance by rule and parts, or by key and limit"))
	case given["key"] && (given["rule"] || given["parts"]):
		err = api.Within("key", api.Wrong("and rule exclude each other"))
	case given["key"] && !given["limit"]:
		err = missing("limit")
	case given["rule"] && given["limit"]:
		err = api.Within("limit", api.Wrong("goes with key; a rule has its own"))
	case blocks && !given["for"]:
		err = missing("for")
	case blocks && n.limit.IsUnlimited():
		err = api.Within("limit", api.Wrong("is unlimited, so there is no balance to block"))
	}
	return n, err
}

func (d *door) reset(w http.ResponseWriter, r *http.Request) {
	d.stepIn(w, r, "reset", false,
		func(ctx context.Context, n *named) error { return d.Gate.Reset(ctx, n.rule, n.parts) },
		func(ctx context.Context, _ *named, c weir.Charge) error { return d.Limiter.Reset(ctx, c) })
}

func (d *door) block(w http.ResponseWriter, r *http.Request) {
	d.stepIn(w, r, "block", true,
		func(ctx context.Context, n *named) error { return d.Gate.Block(ctx, n.rule, n.parts, n.span) },
		func(ctx context.Context, n *named, c weir.Charge) error { return d.Limiter.Block(ctx, n.span, c) })
}

func (d *door) unblock(w http.ResponseWriter, r *http.Request) {
	d.stepIn(w, r, "unblock", false,
		func(ctx context.Context, n *named) error { return d.Gate.Block(ctx, n.rule, n.parts, 0) },
		func(ctx context.Context, _ *named, c weir.Charge) error { return d.Limiter.Block(ctx, 0, c) })
}

// stepIn does something to the balances that the body names, and writes down that
// it was done, by whom and to whom, or that it failed.
func (d *door) stepIn(w http.ResponseWriter, r *http.Request, what string, blocks bool,
	toRule func(context.Context, *named) error, toKey func(context.Context, *named, weir.Charge) error) {
	var n named
	if !api.Read(w, r, func(b *api.Body) (err error) { n, err = readNamed(b, blocks); return err }) {
		return
	}
	var err error
	if n.rule != "" || n.key == "" {
		err = toRule(r.Context(), &n)
	} else {
		err = toKey(r.Context(), &n, n.limit.Charge(n.key))
	}
	d.audit(what, &n, peer(r), err)
	if err != nil {
		api.Fail(w, err)
		return
	}
	done := Done{Done: true}
	if blocks && n.span > 0 {
		done.Until = time.Now().Add(n.span).UTC().Format(time.RFC3339)
	}
	api.Write(w, http.StatusOK, done)
}

// audit writes one line. It names parts and hashes their values: a log is no
// place for keys, and who knows the values can make the hash.
func (d *door) audit(what string, n *named, from string, err error) {
	attrs := []slog.Attr{slog.String("action", what), slog.String("by", n.by), slog.String("from", from)}
	if n.key != "" {
		attrs = append(attrs, slog.String("limit", n.limit.String()), slog.String("key_hash", observe.KeyHash(d.Secret, n.key)))
	} else {
		var names []string
		for name := range n.parts {
			names = append(names, name)
		}
		slices.Sort(names)
		values, _ := json.Marshal(n.parts) // of strings: it cannot fail, and sorts
		attrs = append(attrs, slog.String("rule", n.rule), slog.Any("parts", names), slog.String("parts_hash", observe.KeyHash(d.Secret, string(values))))
	}
	if n.span > 0 {
		attrs = append(attrs, slog.String("for", n.span.String()))
	}
	var input *weir.InputError
	var store *weir.StoreError
	if errors.As(err, &store) && store.Unknown {
		attrs = append(attrs, slog.String("done", "unknown"))
	}
	switch {
	case errors.As(err, &input): // its text may hold a part of a key
		attrs = append(attrs, slog.String("wrong", input.Field))
	case err != nil:
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	d.Log.LogAttrs(context.Background(), slog.LevelWarn, "somebody stepped in", attrs...)
}
