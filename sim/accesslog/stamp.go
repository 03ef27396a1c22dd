package accesslog

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// stamps reads the times that logs are written in. Most lines have the stamp of
// the line before, or its day, so both are remembered. Times outside the years
// 1970 to 2255, which decisions are exact in, are refused.
type stamps struct {
	last [26]byte // the last stamp in the common format
	us   int64    // its time
	day  [3]int   // the last day: year, month, day
	days int64    // that day, in days since the epoch

	coarse bool // the stamp read last has no decimals
}

const secondMicros = 1_000_000

// common reads 17/May/2015:10:05:03 +0000.
func (s *stamps) common(b []byte) (us int64, ok bool) {
	s.coarse = true
	if len(b) == len(s.last) && *(*[26]byte)(b) == s.last {
		return s.us, true
	}
	if len(b) != len(s.last) || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[20] != ' ' {
		return 0, false
	}
	month := monthOf(b[3:6])
	offset, ok := zone(b[21:])
	if !ok {
		return 0, false
	}
	us, ok = s.compose(number(b[7:11]), month, number(b[0:2]), b[12:20])
	if us -= offset; !ok || us < 0 {
		return 0, false
	}
	s.last, s.us = *(*[26]byte)(b), us
	return us, true
}

// haproxy reads 25/Feb/2019:16:19:48.143, which has no zone and is taken for UTC.
func (s *stamps) haproxy(b []byte) (us int64, ok bool) {
	if len(b) < 20 || b[2] != '/' || b[6] != '/' || b[11] != ':' {
		return 0, false
	}
	s.coarse = len(b) == 20
	us, ok = s.compose(number(b[7:11]), monthOf(b[3:6]), number(b[0:2]), b[12:20])
	part, sound := fraction(b[20:])
	return us + part, ok && sound && us >= 0
}

// iso reads 2018-07-02T22:23:00.186641Z and the like: T or a space, any number
// of decimals, Z or an offset or neither.
func (s *stamps) iso(b []byte) (us int64, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != ' ' {
		return 0, false
	}
	us, ok = s.compose(number(b[0:4]), number(b[5:7]), number(b[8:10]), b[11:19])
	if !ok {
		return 0, false
	}
	rest := b[19:]
	end := bytes.IndexAny(rest, "Z+- ")
	if end < 0 {
		end = len(rest)
	}
	s.coarse = end == 0
	part, ok := fraction(rest[:end])
	if !ok {
		return 0, false
	}
	us += part
	if rest = bytes.TrimLeft(rest[end:], " "); len(rest) > 0 && rest[0] != 'Z' {
		offset, ok := zone(rest)
		if !ok {
			return 0, false
		}
		us -= offset
	}
	return us, us >= 0
}

// epoch reads seconds since the epoch with decimals: 1693840791.7564995. What
// is too large for seconds is milliseconds, or microseconds.
func (s *stamps) epoch(text string) (us int64, ok bool) {
	s.coarse = strings.IndexByte(text, '.') < 0
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0) {
		return 0, false
	}
	for _, unit := range []float64{secondMicros, 1000, 1} {
		if f*unit < maxStamp {
			s.coarse = s.coarse && unit == secondMicros
			return int64(math.Round(f * unit)), true
		}
	}
	return 0, false
}

// maxStamp is the year 2255, in microseconds.
const maxStamp = 9e15

// seconds reads a duration in seconds, such as 0.057; what is none is 0.
func seconds(b []byte, unit float64) int64 {
	if len(b) == 0 {
		return 0
	}
	f, err := strconv.ParseFloat(unsafe.String(&b[0], len(b)), 64)
	if err != nil || !(f > 0) || f*unit > 1e12 { // no request takes eleven days
		return 0
	}
	return int64(f * unit)
}

// compose puts a date and hh:mm:ss together.
func (s *stamps) compose(year, month, day int, clock []byte) (us int64, ok bool) {
	h, m, sec := number(clock[0:2]), number(clock[3:5]), number(clock[6:8])
	if clock[2] != ':' || clock[5] != ':' || h < 0 || h > 23 || m < 0 || m > 59 || sec < 0 || sec > 60 {
		return 0, false
	}
	if date := [3]int{year, month, day}; date != s.day || day == 0 { // no day is remembered at first
		t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
		if year < 1970 || year > 2254 || month < 1 || month > 12 || day < 1 || t.Day() != day {
			return 0, false
		}
		s.day, s.days = date, t.Unix()/86_400
	}
	return (s.days*86_400 + int64(h)*3600 + int64(m)*60 + int64(sec)) * secondMicros, true
}

// number reads digits alone, or returns -1.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		if !isDigit(c) {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// zone reads +0330, -07:00 and the like, in microseconds east of UTC.
func zone(b []byte) (us int64, ok bool) {
	if len(b) == 6 && b[3] == ':' {
		b = []byte{b[0], b[1], b[2], b[4], b[5]}
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	h, m := number(b[1:3]), number(b[3:5])
	if h < 0 || h > 18 || m < 0 || m > 59 {
		return 0, false
	}
	us = int64(h*3600+m*60) * secondMicros
	if b[0] == '-' {
		us = -us
	}
	return us, true
}

// fraction reads the decimals of a second, with their point; none are 0.
func fraction(b []byte) (us int64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] != '.' && b[0] != ',' || len(b) < 2 {
		return 0, false
	}
	unit := int64(secondMicros / 10)
	for _, c := range b[1:] {
		if !isDigit(c) {
			return 0, false
		}
		us += int64(c-'0') * unit
		unit /= 10
	}
	return us, true
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

func monthOf(b []byte) int {
	for i := 0; i < len(months); i += 3 {
		if string(b) == months[i:i+3] {
			return i/3 + 1
		}
	}
	return 0
}
