package weir

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/algo"
)

// unit is a unit of PERIOD.
type unit uint8

const (
	millisecond unit = iota
	second
	minute
	hour
	day
	week
	month
	year
)

// unitNames are the shortest spellings that cannot be misread.
var unitNames = [...]string{"ms", "s", "min", "h", "day", "week", "month", "year"}

// unitLengths are how long each is, or can be at most, in microseconds.
var unitLengths = [...]int64{1e3, 1e6, 60e6, 3600e6, 86400e6, 7 * 86400e6, 31 * 86400e6, 366 * 86400e6}

// units holds every spelling of a unit.
var units = map[string]unit{
	"ms": millisecond, "s": second, "sec": second, "secs": second, "second": second, "seconds": second,
	"m": minute, "min": minute, "mins": minute, "minute": minute, "minutes": minute,
	"h": hour, "hour": hour, "hours": hour, "d": day, "day": day, "days": day,
	"w": week, "week": week, "weeks": week, "month": month, "months": month, "year": year, "years": year,
}

func (u unit) String() string { return unitNames[u] }
func (u unit) longest() int64 { return unitLengths[u] }
func (u unit) calendar() bool { return u >= day }

// zone is a time zone interned by name, so that limits of one zone compare
// equal. Zones are never dropped: there are a few hundred names in all.
type zone struct {
	name      string
	location  *time.Location
	calendars [4]calendar // day, week, month, year
}

var zones sync.Map // name → *zone

func zoneNamed(name string) (*zone, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	if name == "Local" { // differs between instances that share a balance
		return nil, &InputError{Field: "tz", Problem: "must be an IANA zone"}
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	z := &zone{name: name, location: location}
	for i := range z.calendars {
		z.calendars[i] = calendar{location: location, unit: day + unit(i)}
	}
	actual, _ := zones.LoadOrStore(name, z)
	return actual.(*zone), nil
}

func (z *zone) calendar(u unit) algo.Calendar { return &z.calendars[u-day] }

// calendar finds the days, weeks, months or years of a zone. A period ends
// where the next begins, whatever its length: on the days the clocks change a
// day has 23 or 25 hours, and where midnight does not exist the day begins at
// the first instant that does.
type calendar struct {
	location *time.Location
	unit     unit
	last     atomic.Pointer[[2]int64] // the period found last, most likely the next one asked for
}

// Around implements algo.Calendar.
func (c *calendar) Around(t int64) (start, end int64) {
	if p := c.last.Load(); p != nil && p[0] <= t && t < p[1] {
		return p[0], p[1]
	}
	local := time.UnixMicro(t).In(c.location)
	y, m, d := local.Date()
	switch c.unit {
	case week:
		d -= (int(local.Weekday()) + 6) % 7 // weeks begin on Monday
	case month:
		d = 1
	case year:
		m, d = time.January, 1
	}
	first := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	p := &[2]int64{c.begin(first), c.begin(c.step(first, 1))}
	switch { // where midnight happens twice, t's date may not be its period's: see begin
	case t >= p[1]:
		p = &[2]int64{p[1], c.begin(c.step(first, 2))}
	case t < p[0]:
		p = &[2]int64{c.begin(c.step(first, -1)), p[0]}
	}
	c.last.Store(p)
	return p[0], p[1]
}

// step returns the civil day on which the period n after the one of day begins.
func (c *calendar) step(day time.Time, n int) time.Time {
	switch c.unit {
	case week:
		return day.AddDate(0, 0, 7*n)
	case month:
		return day.AddDate(0, n, 0)
	case year:
		return day.AddDate(n, 0, 0)
	}
	return day.AddDate(0, 0, n)
}

// begin returns the instant at which a civil day, given as midnight UTC of the
// same date, begins in the zone: the first second whose local date has reached
// it. That is right where midnight does not exist (the day begins at 01:00),
// where the whole day does not (it is empty), and where midnight happens twice
// (one of the two is chosen, always the same). time.Date alone may answer with
// an instant of the day before.
func (c *calendar) begin(civil time.Time) int64 {
	day := civil.Unix()
	before, reached := day-36*3600, day+36*3600 // no zone is further from UTC
	for reached-before > 1 {
		mid := before + (reached-before)/2
		_, offset := time.Unix(mid, 0).In(c.location).Zone()
		if mid+int64(offset) >= day {
			reached = mid
		} else {
			before = mid
		}
	}
	return reached * 1e6
}
