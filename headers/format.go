package headers

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Families is a set of header families. The zero value stands for the default.
type Families uint8

// The families.
const (
	Triple     Families = 1 << iota // RateLimit-Limit, -Remaining, -Reset of the binding limit
	Draft11                         // RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11
	XRateLimit                      // X-RateLimit-Limit, -Remaining, -Reset of the binding limit
	None                            // no family: Retry-After and Cache-Control on denials alone

	Default = Triple | Draft11
)

var familyNames = []struct {
	name   string
	family Families
}{{"triple", Triple}, {"draft-11", Draft11}, {"x-ratelimit", XRateLimit}}

// FamilyNamed returns the family with the name that policy files use: triple,
// draft-11 or x-ratelimit.
func FamilyNamed(name string) (Families, error) {
	for _, f := range familyNames {
		if f.name == name {
			return f.family, nil
		}
	}
	return 0, fmt.Errorf("unknown header family %q; families are triple, draft-11, x-ratelimit", name)
}

// Reset says what X-RateLimit-Reset counts.
type Reset uint8

// The meanings of X-RateLimit-Reset.
const (
	Epoch Reset = iota // an instant: seconds since the Unix epoch
	Delta              // seconds from now
)

// Jitter is how far the wait of a denied client is spread, in percent of its
// exact retry time, to a hundredth of one; one second is the least spread. The
// zero value stands for DefaultJitter, and NoJitter leaves the second alone.
type Jitter float64

// The usual jitters.
const (
	DefaultJitter Jitter = 20
	NoJitter      Jitter = -1
)

// Body is what a quota denial is answered with instead of problem+json.
type Body struct {
	Status      int // 400 to 599
	ContentType string
	Content     []byte
}

// Options configures New. The zero value is what most want.
type Options struct {
	Families Families
	XReset   Reset
	Jitter   Jitter // at most 100
	Denied   *Body  // for quota denials; nil for problem+json

	// Random returns a uniform number in [0, n); nil for math/rand/v2. It is
	// called concurrently.
	Random func(n int64) int64
	// Now is the clock X-RateLimit-Reset counts on; nil for time.Now.
	Now func() time.Time
}

// Format makes answers of bills. It is safe for concurrent use.
type Format struct {
	families Families
	xReset   Reset
	jitter   int64 // in hundredths of a percent
	denied   *Body
	random   func(int64) int64
	now      func() time.Time
}

// hundredths returns j in hundredths of a percent, so that what is reckoned with
// it stays whole.
func hundredths(j Jitter) int64 { return int64(math.Round(float64(j) * 100)) }

// New returns a Format, or an error that names the option that is wrong.
func New(o Options) (*Format, error) {
	f := &Format{families: o.Families, xReset: o.XReset, jitter: hundredths(o.Jitter), denied: o.Denied, random: o.Random, now: o.Now}
	switch {
	case f.families == 0:
		f.families = Default
	case f.families > None|Triple|Draft11|XRateLimit:
		return nil, errors.New("headers: unknown family")
	case f.families&None != 0 && f.families != None:
		return nil, errors.New("headers: None goes with no other family")
	}
	if o.XReset > Delta {
		return nil, errors.New("headers: x_reset is epoch or delta")
	}
	switch {
	case o.Jitter == 0:
		f.jitter = hundredths(DefaultJitter)
	case o.Jitter == NoJitter:
		f.jitter = 0
	case !(o.Jitter >= 0 && o.Jitter <= 100): // no number either
		return nil, fmt.Errorf("headers: a jitter of %v%% does not lie between 0%% and 100%%", o.Jitter)
	}
	if d := o.Denied; d != nil && (d.Status < 400 || d.Status > 599) {
		return nil, fmt.Errorf("headers: denied: status %d is no refusal; use one from 400 to 599", d.Status)
	}
	if d := o.Denied; d != nil && len(d.Content) > 0 && d.ContentType == "" {
		return nil, errors.New("headers: denied: a body needs a content type")
	}
	if f.random == nil {
		f.random = rand.Int64N
	}
	if f.now == nil {
		f.now = time.Now
	}
	return f, nil
}
