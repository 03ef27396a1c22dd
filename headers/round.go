package headers

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Seconds returns d in whole seconds, rounded up; 0 for what is not positive.
// Up, because a client that comes back early is refused once more.
func Seconds(d time.Duration) int64 { return roundUp(d, time.Second) }

// Milliseconds returns d in whole milliseconds, rounded up; 0 for what is not
// positive, but for weir.Never, which stays -1.
func Milliseconds(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return roundUp(d, time.Millisecond)
}

func roundUp(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}

// longestWait is the longest whole number of seconds a time.Duration holds.
const longestWait = math.MaxInt64 / int64(time.Second)

// wait returns how long a denied client is told to wait: uniform over
// [retry, retry + max(jitter·retry, 1 s)], rounded up to whole seconds, at least
// one. The draw is never below retry, for before it the client would be refused
// again; the second at least keeps those who were refused together from coming
// back together even where retry is short. It is 0, no wait, if retry is Never.
func (f *Format) wait(retry time.Duration) time.Duration {
	if retry < 0 {
		return 0
	}
	us := roundUp(retry, time.Microsecond)
	spread := us/10_000*f.jitter + us%10_000*f.jitter/10_000 // no product that could overflow
	spread = max(spread, int64(time.Second/time.Microsecond))
	us += f.random(spread + 1)
	s := (us + 999_999) / 1_000_000
	return time.Duration(min(max(s, 1), longestWait)) * time.Second
}

// apart is how far apart those come back who were refused together by WriteWait.
const apart = 2 * time.Second

// WriteWait says in h when to ask again, where no limit of a policy refused but a
// door itself, for want of room: uniform over [least, least + 2 s] in whole seconds,
// rounded up, at least one.
func WriteWait(h http.Header, least time.Duration) {
	s := min(max(Seconds(least), 1), longestWait) + rand.Int64N(1+int64(apart/time.Second))
	h.Set(retryName.key, strconv.FormatInt(s, 10))
}
