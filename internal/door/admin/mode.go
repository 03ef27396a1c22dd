package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weirhq/weir/internal/door/api"
)

// Modes is what switches rules between shadow and enforce.
type Modes interface {
	// Switch puts rule, or with "" every rule not switched by name, into mode for
	// d, or with 0 ends the switch that is there. by is who asks, from where they
	// come. It returns when that ends and whether it holds on all instances. A
	// shared store that answers and refuses is a *weir.StoreError: then nothing
	// is switched.
	Switch(ctx context.Context, rule, mode string, d time.Duration, by, from string) (until time.Time, everywhere bool, err error)
}

// Switched is the answer of /v1/mode.
type Switched struct {
	Mode  string `json:"mode"`
	Rule  string `json:"rule,omitempty"` // none: every rule
	Until string `json:"until"`          // RFC 3339, UTC
	// Everywhere says that all instances follow within a second; else there is no
	// shared store, or it is away, and this instance alone does.
	Everywhere bool `json:"everywhere"`
}

const longestMode = 24 * time.Hour

// mode switches rules for a while.
func (d *door) mode(w http.ResponseWriter, r *http.Request) {
	var q struct {
		mode, rule, by string
		length         time.Duration
	}
	given := make([]bool, 4)
	fields := []string{"mode", "rule", "for", "by"}
	ok := api.Read(w, r, func(b *api.Body) error {
		err := b.Object(fields, func(field int) error {
			given[field] = true
			s, err := b.Text()
			if err != nil {
				return err
			}
			switch fields[field] {
			case "mode":
				if q.mode = s; s != "shadow" && s != "enforce" {
					return api.Wrong(`must be "shadow" or "enforce"`)
				}
			case "rule":
				q.rule = s
				return d.ruleNamed(s)
			case "for":
				q.length, err = length(s, longestMode)
			case "by":
				if q.by = s; len(s) > 64 {
					return api.Wrong("has more than 64 bytes")
				}
			}
			return err
		})
		for i, name := range []string{"mode", "", "for"} {
			if err == nil && name != "" && !given[i] {
				err = api.Within(name, api.Wrong("is missing"))
			}
		}
		return err
	})
	if !ok {
		return
	}
	until, everywhere, err := d.Modes.Switch(r.Context(), q.rule, q.mode, q.length, q.by, peer(r))
	if err != nil {
		api.Fail(w, err)
		return
	}
	api.Write(w, http.StatusOK, Switched{q.mode, q.rule, until.UTC().Format(time.RFC3339), everywhere})
}

// ruleNamed returns an error unless the policy in force has a rule of this name.
func (d *door) ruleNamed(name string) error {
	for _, rule := range d.Gate.Policy().Rules() {
		if rule.Name == name {
			return nil
		}
	}
	return api.Wrong("names no rule of the policy in force")
}

// length reads how long something is to last: a millisecond to most, or 0. What is
// less than the clocks of stores tell apart would be 0 to them, and so end a block.
func length(s string, most time.Duration) (time.Duration, error) {
	l, err := time.ParseDuration(s)
	if err != nil || l < 0 || l > most || l > 0 && l < time.Millisecond {
		return 0, api.Wrong(fmt.Sprintf("must be a time such as 15m, at most %s; 0s ends it now", most))
	}
	return l, nil
}

// peer returns where the request came from, for the log.
func peer(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
