package rls

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/internal/door/rls/rlsconfig"
)

// Options configures a Service. What is not said is as that server has it by
// default; the names of its environment are given beside.
type Options struct {
	Limiter *weir.Limiter
	Dir     string // of the configuration
	Load    rlsconfig.Options

	Shadow   bool      // SHADOW_MODE: OVER_LIMIT as a whole becomes OK
	Quota    bool      // QUOTA_MODE: as if every descriptor had quota_mode
	Headers  [3]string // LIMIT_RESPONSE_HEADERS_ENABLED: names of limit, remaining and reset, or none
	Metadata bool      // RESPONSE_DYNAMIC_METADATA
	// Near is NEAR_LIMIT_RATIO in thousandths, 800 if 0: from there on hits are
	// near the limit.
	Near int64

	// Budget is how long the store may take, or 0 where it needs no bound. A
	// caller that has less time has all but a fifth of it spent on the store.
	Budget time.Duration
	// Now is the clock that a period is told by where nothing has been counted in
	// it; nil for the system's.
	Now func() time.Time
	// Loaded is told of every reload after the first load.
	Loaded func(error)
}

// Service answers requests. It is safe for concurrent use.
type Service struct {
	Options
	current  atomic.Pointer[inForce]
	counters counters
}

// inForce is what one answer is made by.
type inForce struct {
	config *rlsconfig.Config
	print  [32]byte                    // of the files, from before they were read
	static map[*rlsconfig.Rule]*Counts // of rules whose metric has one name
}

// New loads the configuration. The error is an rlsconfig.Errors, or that of the
// file system: there is no Service without a configuration, since all that it
// could answer are errors.
func New(o Options) (*Service, error) {
	s := newService(o)
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

func newService(o Options) *Service {
	if o.Near == 0 {
		o.Near = 800
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{Options: o}
}

// load reads the configuration and puts it in force if it is right.
func (s *Service) load() error {
	print := rlsconfig.Print(s.Dir)
	c, err := rlsconfig.Load(s.Dir, s.Load)
	if err != nil {
		s.counters.loadErrors.Add(1)
		return err
	}
	s.use(c, print)
	return nil
}

// use puts a configuration in force. Balances and counters stay.
func (s *Service) use(c *rlsconfig.Config, print [32]byte) {
	next := &inForce{config: c, print: print, static: map[*rlsconfig.Rule]*Counts{}}
	c.Rules(func(d *rlsconfig.Domain, r *rlsconfig.Rule) {
		if !r.Unlimited {
			next.static[r] = s.counters.of(d.Name, r.Path, true)
		}
	})
	s.current.Store(next)
	s.counters.loads.Add(1)
}

// Decide answers one request. The error has a gRPC status; where a closed rule
// would have had a say there is none, but OVER_LIMIT.
func (s *Service) Decide(ctx context.Context, q *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	s.counters.requests.Add(1)
	switch {
	case q.GetDomain() == "":
		return nil, s.refuse("rate limit domain must not be empty")
	case len(q.GetDescriptors()) == 0:
		return nil, s.refuse("rate limit descriptor list must not be empty")
	case len(q.GetDescriptors()) > maxDescriptors:
		return nil, s.refuse("a request has at most 128 descriptors")
	}
	c := calls.Get().(*call)
	defer c.release()
	if err := c.match(s, q); err != nil {
		return nil, s.refuse(err.Error())
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := c.decide(ctx, s.Limiter); err != nil {
		return s.undecided(c, q, err)
	}
	return c.response(s, q), nil
}

// maxDescriptors bounds what one request may ask for.
const maxDescriptors = 128

// refuse returns the error for a request that cannot be answered. Its code is
// the one that server gives: Unknown.
func (s *Service) refuse(problem string) error {
	s.counters.serviceErrors.Add(1)
	return status.Error(codes.Unknown, problem)
}

// undecided answers where nothing was decided at all: the caller has gone, or
// the daemon is closing.
func (s *Service) undecided(c *call, q *rlsv3.RateLimitRequest, err error) (*rlsv3.RateLimitResponse, error) {
	if c.closed() {
		return s.shadow(c.refusal(q)), nil
	}
	s.counters.serviceErrors.Add(1)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, status.Error(codes.DeadlineExceeded, "there was no time to decide")
	case errors.Is(err, context.Canceled):
		return nil, status.Error(codes.Canceled, "the caller has gone")
	case errors.Is(err, weir.ErrClosed):
		return nil, status.Error(codes.Unavailable, "the limiter is closed")
	}
	return nil, status.Error(codes.InvalidArgument, err.Error())
}

// within bounds ctx to what the caller can wait for, less what the answer needs
// on its way. Where that is more than the store's own bound nothing is set up.
func (s *Service) within(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || s.Budget == 0 {
		return ctx, func() {}
	}
	left := time.Until(deadline)
	if left-left/5 >= s.Budget {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, left-left/5)
}
