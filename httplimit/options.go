package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
)

// Options configures New and Policy.
type Options struct {
	// Rules are charged together for every request: admitted by all, or charged
	// by none. The first is the first in response fields.
	Rules []Rule

	// Cost returns how many units a request costs, at least 1; nil for 1. A
	// request for which it returns less is answered 400 and charged nothing.
	Cost func(*http.Request) int64
	// Skip reports that a request is not limited at all, such as one for a
	// health check or a CORS preflight; nil skips none.
	Skip func(*http.Request) bool

	// Space keeps this middleware's balances apart from those of other spaces;
	// "" is the space of Limiter.Allow and Take.
	Space string
	// Address says whom a request without a key is charged to; nil for its
	// direct peer. Behind a proxy that should be ByIP(trusted...).
	Address Key

	// MaxDelay bounds how long a leaky bucket may hold a request; 0 for 30 s. A
	// request that would wait longer is denied, and nothing charged. The queue is
	// shown only as far as it is used.
	MaxDelay time.Duration
	// MaxWaiting bounds how many requests this middleware holds at a time; 0 for
	// 1,000. A request that finds no place is admitted if it need not wait.
	MaxWaiting int

	// Headers says what clients are shown.
	Headers headers.Options
	// Denied answers a denied request in place of problem+json. The fields of a
	// are set already; it writes a.Status or another, and a body.
	Denied func(w http.ResponseWriter, r *http.Request, a *headers.Answer)
	// OnError answers a request that could not be decided, and is the place to
	// log why. The handler is not called. Nil answers ErrCost, and a path that a
	// policy refuses as ambiguous (an *weir.InputError whose Field is path), with 400; a context
	// that ended, weir.ErrClosed, and a *weir.StoreError (the charge of a request
	// that will not run could not be given back) with 503; and any other *weir.InputError
	// (a mistake in the configuration, of which the first is logged) with 500.
	// That a store could not decide is no error but an answer; see weir.Failure.
	OnError func(w http.ResponseWriter, r *http.Request, err error)
}

// Rule is a key and the limits on it.
type Rule struct {
	Key    Key
	Limits []weir.Limit
	// Plan returns the limits for this request, by what its caller pays for; if
	// it returns none, Limits hold. weir.Unlimited() lifts the limit.
	Plan func(*http.Request) []weir.Limit
	// Hidden keeps the rule out of response fields and bodies.
	Hidden bool
}

// ErrCost is told to OnError when Options.Cost returned less than 1.
var ErrCost = errors.New("httplimit: a request costs at least 1")

const (
	defaultMaxDelay   = 30 * time.Second
	defaultMaxWaiting = 1000
)

// check returns an error that names the option that is wrong.
func (o *Options) check(l *weir.Limiter) error {
	switch {
	case l == nil:
		return errors.New("httplimit: the limiter is nil")
	case len(o.Rules) == 0:
		return errors.New("httplimit: no rules; a middleware without one would limit nothing")
	case o.MaxDelay < 0:
		return errors.New("httplimit: MaxDelay is negative")
	case o.MaxWaiting < 0:
		return errors.New("httplimit: MaxWaiting is negative")
	}
	for i := range o.Rules {
		rule := &o.Rules[i]
		switch {
		case rule.Key == nil:
			return fmt.Errorf("httplimit: Rules[%d].Key is nil", i)
		case len(rule.Limits) == 0 && rule.Plan == nil:
			return fmt.Errorf("httplimit: Rules[%d] has no limits", i)
		}
		for j, limit := range rule.Limits {
			if err := limit.Check(); err != nil {
				return fmt.Errorf("httplimit: Rules[%d].Limits[%d]: %w", i, j, err)
			}
		}
	}
	return nil
}

func (o *Options) checkPolicy(l *weir.Limiter, g *gate.Gate) error {
	switch {
	case l == nil || g == nil:
		return errors.New("httplimit: the limiter or the gate is nil")
	case len(o.Rules) > 0 || o.Space != "" || o.Address != nil:
		return errors.New("httplimit: Rules, Space and Address are the policy's to say")
	case o.MaxDelay < 0:
		return errors.New("httplimit: MaxDelay is negative")
	case o.MaxWaiting < 0:
		return errors.New("httplimit: MaxWaiting is negative")
	}
	return nil
}
