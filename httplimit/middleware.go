package httplimit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/gate"
	"github.com/weirhq/weir/headers"
	"github.com/weirhq/weir/identity"
)

// Middleware limits a handler by key: one unit a request under each of limits,
// all or none. If the arguments are wrong every request is answered 500 and the
// first logged; New reports such mistakes at once.
func Middleware(l *weir.Limiter, key Key, limits ...weir.Limit) func(http.Handler) http.Handler {
	wrap, err := New(l, Options{Rules: []Rule{{Key: key, Limits: limits}}})
	if err != nil {
		refuse := onError(nil)
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { refuse(w, r, err) })
		}
	}
	return wrap
}

// New returns a middleware, or an error that names the option that is wrong. It
// may wrap many handlers, and what it returns is safe for concurrent use.
func New(l *weir.Limiter, o Options) (func(http.Handler) http.Handler, error) {
	if err := o.check(l); err != nil {
		return nil, err
	}
	return build(&middleware{Options: o, limiter: l})
}

// Policy returns a middleware that applies the policy of g, whose limiter is l.
// Rules, Space and Address are the policy's and must be left empty; what Cost
// returns stands in for the costs of the policy.
func Policy(l *weir.Limiter, g *gate.Gate, o Options) (func(http.Handler) http.Handler, error) {
	if err := o.checkPolicy(l, g); err != nil {
		return nil, err
	}
	return build(&middleware{Options: o, limiter: l, gate: g})
}

// build fills in the defaults.
func build(m *middleware) (func(http.Handler) http.Handler, error) {
	var err error
	if m.format, err = headers.New(m.Headers); err != nil {
		return nil, err
	}
	if m.MaxDelay == 0 {
		m.MaxDelay = defaultMaxDelay
	}
	if m.MaxWaiting == 0 {
		m.MaxWaiting = defaultMaxWaiting
	}
	if m.Address == nil {
		m.Address = ByIP()
	}
	m.OnError = onError(m.OnError)
	m.calls.New = func() any { return &call{} }
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if m.Skip != nil && m.Skip(r) || m.admit(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}, nil
}

type middleware struct {
	Options
	limiter *weir.Limiter
	gate    *gate.Gate // decides in place of Rules, or nil
	format  *headers.Format
	waiting atomic.Int64 // requests being decided or held
	calls   sync.Pool
}

// call is what deciding one request needs. It goes back to the pool before the
// handler runs, which may take hours.
type call struct {
	bill    *weir.Bill // own, or the verdict's
	shows   []headers.Show
	own     weir.Bill
	bills   [1]*weir.Bill
	verdict *gate.Verdict
}

// admit decides r. It sets the fields of an admitted request, and answers any
// other and reports false.
func (m *middleware) admit(w http.ResponseWriter, r *http.Request) bool {
	c := m.calls.Get().(*call)
	defer m.release(c)
	if err := m.decide(c, r); err != nil {
		m.OnError(w, r, err)
		return false
	}
	answer := m.format.Answer(c.bill, c.shows)
	answer.Write(w.Header())
	if c.bill.Allowed {
		return true
	}
	if m.Denied != nil {
		shown := answer // a copy, so that only this path puts one on the heap
		m.Denied(w, r, &shown)
		return false
	}
	// The one error is that of a client that has gone.
	_ = answer.Refuse(w, r)
	return false
}

func (m *middleware) release(c *call) {
	if c.verdict != nil {
		gate.Put(c.verdict)
		c.verdict = nil
	}
	clear(c.own.Charges) // keep nobody's key
	c.own.Err, c.bill = nil, nil
	m.calls.Put(c)
}

// decide has r decided, and sits out its delay.
func (m *middleware) decide(c *call, r *http.Request) error {
	cost := int64(0)
	if m.Cost != nil {
		if cost = m.Cost(r); cost < 1 {
			return ErrCost
		}
	}
	// A place is taken before the decision, since what is charged for a wait cannot
	// be taken back unseen.
	longest := m.MaxDelay
	if m.waiting.Add(1) > int64(m.MaxWaiting) {
		longest = 0
	}
	defer m.waiting.Add(-1)
	var err error
	if m.gate != nil {
		err = m.byPolicy(c, r, cost, longest)
	} else {
		err = m.byRules(c, r, max(cost, 1), longest)
	}
	if err != nil || !c.bill.Allowed {
		return err
	}
	return m.limiter.Hold(r.Context(), c.bill)
}

// byRules fills a bill with the charges of the rules and decides it.
func (m *middleware) byRules(c *call, r *http.Request, cost int64, longest time.Duration) error {
	c.bill, c.bills[0] = &c.own, &c.own
	c.own.Charges, c.shows = c.own.Charges[:0], c.shows[:0]
	for i := range m.Rules {
		rule := &m.Rules[i]
		key := m.key(rule, r)
		for _, limit := range rule.limits(r) {
			c.own.Charges = append(c.own.Charges, weir.Charge{Key: key, Limit: limit, Cost: cost, Space: m.Space})
			c.shows = append(c.shows, headers.Show{Hidden: rule.Hidden})
		}
	}
	gate.BoundWaits(c.own.Charges, longest)
	return m.limiter.Decide(r.Context(), c.bills[:]...)
}

// byPolicy has the gate decide. A target such as x:http://h/login has no path that rules
// could look at; a proxy behind us would send the rest of it on.
func (m *middleware) byPolicy(c *call, r *http.Request, cost int64, longest time.Duration) error {
	if r.URL.Opaque != "" {
		return &weir.InputError{Field: "path", Problem: "is missing: the target of the request is neither a path nor a URL with one"}
	}
	v := gate.Get()
	v.Door, v.NoWait, v.MaxDelay = "httplimit", longest == 0, longest
	c.verdict, c.bill = v, &v.Bill
	seen := identity.CallOf(r)
	seen.Cost = cost
	if err := m.gate.Decide(r.Context(), &seen, v); err != nil {
		return err
	}
	c.shows = c.shows[:0]
	for i := range v.Rules {
		c.shows = append(c.shows, headers.Show{Name: v.Rules[i].Name, Hidden: !v.Shown(i)})
	}
	return nil
}

func (r *Rule) limits(req *http.Request) []weir.Limit {
	if r.Plan != nil {
		if limits := r.Plan(req); len(limits) > 0 {
			return limits
		}
	}
	return r.Limits
}

// noAddress keys requests that have neither key nor address, as those over a
// unix socket whose proxy says nothing.
const noAddress = "no address"

// key returns whom rule charges r to. Who has no key of its own is charged as
// such, so that no value a client can send is the same balance.
func (m *middleware) key(rule *Rule, r *http.Request) string {
	if key := rule.Key(r); key != "" {
		return key
	}
	if address := m.Address(r); address != "" {
		return "keyless:" + address
	}
	return "keyless:" + noAddress
}

// onError returns given, or what answers errors in its place. A mistake in the
// configuration would meet every request, so it is logged once.
func onError(given func(http.ResponseWriter, *http.Request, error)) func(http.ResponseWriter, *http.Request, error) {
	if given != nil {
		return given
	}
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request, err error) {
		status := http.StatusInternalServerError
		var store *weir.StoreError
		var input *weir.InputError
		switch {
		case errors.Is(err, ErrCost), errors.As(err, &input) && input.Field == "path": // which is missing, or the policy refuses as ambiguous
			status = http.StatusBadRequest
		case errors.Is(err, weir.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &store):
			status = http.StatusServiceUnavailable
		default:
			once.Do(func() { slog.ErrorContext(r.Context(), "requests cannot be limited and are refused", "error", err) })
		}
		// The one error is that of a client that has gone.
		_ = headers.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status}.Refuse(w, r)
	}
}
