package weir

import (
	"math/rand/v2"
	"testing"
	"time"
)

func calendarOf(t *testing.T, period, zone string) (*calendar, *time.Location) {
	t.Helper()
	l, err := ParseLimit("1/" + period + " algorithm=fixed_window tz=" + zone)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return l.Quota().Calendar.(*calendar), location
}

// TestCalendarPeriods checks the edges of periods that are not as long as one
// thinks. Instants are in UTC.
func TestCalendarPeriods(t *testing.T) {
	for _, c := range []struct {
		name, period, zone, at, start, end string
	}{
		{"a usual day", "day", "Europe/Paris", "2026-07-01T12:00:00Z", "2026-06-30T22:00:00Z", "2026-07-01T22:00:00Z"},
		{"23 hours", "day", "Europe/Paris", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"25 hours", "day", "Europe/Paris", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"25 hours, the second 02:30", "day", "Europe/Paris", "2026-10-25T01:30:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"23 hours", "day", "America/New_York", "2026-03-08T20:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"25 hours", "day", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"half an hour less", "day", "Australia/Lord_Howe", "2026-10-04T03:00:00Z", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"},
		{"half an hour more", "day", "Australia/Lord_Howe", "2026-04-05T03:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"no midnight: begins at 01:00", "day", "Asia/Beirut", "2022-03-27T09:00:00Z", "2022-03-26T22:00:00Z", "2022-03-27T21:00:00Z"},
		{"the day before no midnight", "day", "Asia/Beirut", "2022-03-26T21:59:59Z", "2022-03-25T22:00:00Z", "2022-03-26T22:00:00Z"},
		{"no midnight: begins at 01:00", "day", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"a day that is not", "day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"after the day that is not", "day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		{"midnight twice: the minute after the first", "day", "America/St_Johns", "2010-11-07T02:30:30Z", "2010-11-06T02:30:00Z", "2010-11-07T03:30:00Z"},
		{"midnight twice: between the two", "day", "America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-06T02:30:00Z", "2010-11-07T03:30:00Z"},
		{"midnight twice: after the second", "day", "America/St_Johns", "2010-11-07T03:30:00Z", "2010-11-07T03:30:00Z", "2010-11-08T03:30:00Z"},
		{"the first instant belongs", "day", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"weeks begin on Monday", "week", "UTC", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{"a Sunday ends one", "week", "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"a week over the change", "week", "Europe/Paris", "2026-10-25T12:00:00Z", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"a week over the new year", "week", "Asia/Tokyo", "2026-01-01T00:00:00Z", "2025-12-28T15:00:00Z", "2026-01-04T15:00:00Z"},
		{"February", "month", "UTC", "2026-02-10T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"February of a leap year", "month", "UTC", "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"no leap year at the century", "month", "UTC", "2100-02-28T23:59:59Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		{"a month over the change", "month", "Europe/Paris", "2026-03-15T00:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{"December", "month", "America/New_York", "2026-12-31T12:00:00Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"},
		{"a leap year", "year", "UTC", "2028-06-01T00:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"a year elsewhere", "year", "Asia/Kolkata", "2026-12-31T18:30:00Z", "2026-12-31T18:30:00Z", "2027-12-31T18:30:00Z"},
	} {
		calendar, _ := calendarOf(t, c.period, c.zone)
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := calendar.Around(at.UnixMicro())
		got := [2]string{time.UnixMicro(start).UTC().Format(time.RFC3339), time.UnixMicro(end).UTC().Format(time.RFC3339)}
		if got != [2]string{c.start, c.end} {
			t.Errorf("%s, %s of %s: %v, want [%s %s]", c.name, c.period, c.zone, got, c.start, c.end)
		}
	}
}

// TestCalendarTilesTime: in every zone with an odd history, periods follow one
// another without gap or overlap, every instant of one finds the same one, its
// first instant has the right date, and the instant before an earlier one.
func TestCalendarTilesTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, zone := range []string{
		"UTC", "Europe/Paris", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Asia/Gaza",
		"Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kiritimati", "Africa/Cairo", "America/Asuncion", "Asia/Kathmandu", "Africa/Casablanca", "America/St_Johns",
	} {
		for _, period := range []string{"day", "week", "month", "year"} {
			c, location := calendarOf(t, period, zone)
			at := time.Date(2009, 12, 20, 0, 0, 0, 0, time.UTC).UnixMicro()
			until := time.Date(2031, 2, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
			if testing.Short() {
				until = time.Date(2012, 2, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
			}
			start, end := c.Around(at)
			for at < until {
				if !(start <= at && at < end) {
					t.Fatalf("%s of %s at %d: [%d, %d)", period, zone, at, start, end)
				}
				early := rng.Int64N(min(2*3600e6, end-start)) // the clock is turned at night
				for _, inside := range []int64{start, end - 1, start + rng.Int64N(end-start), start + early, end - 1 - early} {
					c.last.Store(nil) // ask anew
					if s, e := c.Around(inside); s != start || e != end {
						t.Fatalf("%s of %s at %d: [%d, %d), but at %d [%d, %d)", period, zone, at, start, end, inside, s, e)
					}
				}
				first, before := time.UnixMicro(start).In(location), time.UnixMicro(start-1).In(location)
				if dayNumber(first) <= dayNumber(before) && !twice(location, start) {
					t.Fatalf("%s of %s begins at %s, after %s", period, zone, first, before)
				}
				wrong := period == "week" && first.Weekday() != time.Monday || period == "month" && first.Day() != 1 ||
					period == "year" && first.YearDay() != 1
				if wrong {
					t.Fatalf("a %s of %s begins on %s", period, zone, first)
				}
				at = end
				next, nextEnd := c.Around(at)
				if next != end {
					t.Fatalf("%s of %s ends at %d and the next begins at %d", period, zone, end, next)
				}
				start, end = next, nextEnd
			}
		}
	}
}

func dayNumber(t time.Time) int { return t.Year()*1000 + t.YearDay() }

// twice reports whether the zone turns its clock back across midnight around
// start, so that a date begins twice.
func twice(location *time.Location, start int64) bool {
	_, before := time.UnixMicro(start - 3*3600e6).In(location).Zone()
	_, after := time.UnixMicro(start + 3*3600e6).In(location).Zone()
	return after < before
}

func TestZonesAreComparable(t *testing.T) {
	parse := func(s string) Limit {
		l, err := ParseLimit(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	paris := parse("5/day algorithm=fixed_window tz=Europe/Paris")
	if paris != parse("5/day algorithm=fixed_window tz=Europe/Paris") {
		t.Error("equal limits of one zone differ")
	}
	tokyo := parse("5/day algorithm=fixed_window tz=Asia/Tokyo")
	if month := parse("5/month algorithm=fixed_window tz=Europe/Paris"); paris == tokyo || paris == month {
		t.Error("limits of other zones or units are equal")
	}
}
