package resp

import (
	"bytes"
	"strings"
	"time"

	"github.com/weirhq/weir"
	"github.com/weirhq/weir/algo"
)

// throttleSpace is where the balances of CL.THROTTLE live, apart from those of
// WEIR.TAKE and of every other door.
const throttleSpace = "CL.THROTTLE"

// cellError is how redis-cell begins every error.
const cellError = "Cell error: Store error: "

const cellUsage = cellError + "Usage: throttle <key> <max_burst> <count per period> <period> [<quantity>]"

// throttled is a limit by the arguments that say it. Clients repeat them.
type throttled struct {
	args  [3]string
	limit weir.Limit
}

// clThrottle is CL.THROTTLE key max_burst count period [quantity].
func (c *conn) clThrottle(b *batch, args [][]byte) {
	if len(args) != 5 && len(args) != 6 {
		b.fail(cellUsage)
		return
	}
	quantity := int64(1)
	if len(args) == 6 {
		n, ok := integer(args[5])
		switch {
		case !ok:
			b.fail(cellError + "Couldn't parse as integer: " + printable(args[5]))
			return
		case n < 0:
			b.fail(cellError + "quantity must not be negative")
			return
		}
		quantity = min(n, algo.MaxCost)
	}
	if problem := keyProblem(args[1]); problem != "" {
		b.fail(cellError + problem)
		return
	}
	if t := &c.throttle; t.args[0] != string(args[2]) || t.args[1] != string(args[3]) || t.args[2] != string(args[4]) {
		limit, problem := throttleLimit(args[2:5])
		if problem != "" {
			b.fail(cellError + problem)
			return
		}
		*t = throttled{[3]string{string(args[2]), string(args[3]), string(args[4])}, limit}
	}
	b.ask(cell, c.proto, args[1], &c.throttle.limit, quantity, throttleSpace)
}

// throttleLimit returns the token bucket that max_burst, count and period mean.
func throttleLimit(args [][]byte) (l weir.Limit, problem string) {
	var n [3]int64
	for i, arg := range args {
		var ok bool
		if n[i], ok = integer(arg); !ok {
			return l, "Couldn't parse as integer: " + printable(arg)
		}
	}
	burst, count, period := n[0], n[1], n[2]
	const longest = int64(algo.MaxPeriod / 1e6) // seconds
	switch {
	case count == 0 || period == 0:
		return l, "Zero rates are not supported"
	case burst < 0 || burst >= algo.MaxUnits:
		return l, "max_burst must lie between 0 and 999999999"
	case count < 0 || count > algo.MaxUnits:
		return l, "count per period must lie between 1 and 1000000000"
	case period < 0 || period > longest:
		return l, "period must lie between 1 and 31622400 seconds"
	}
	l = weir.Per(count, time.Duration(period)*time.Second).Burst(burst + 1)
	if err := l.Check(); err != nil {
		return l, err.Error()
	}
	return l, ""
}

// appendCell writes the five integers of redis-cell: whether it is limited, the
// limit, what remains, and the seconds to a retry and to a full bucket.
func appendCell(to []byte, d *weir.Decision) []byte {
	to = appendInteger(append(to, "*5\r\n"...), flag(!d.Allowed))
	to = appendInteger(to, d.Limit)
	to = appendInteger(to, d.Remaining)
	switch {
	case d.Allowed || d.RetryAfter == weir.Never:
		to = append(to, ":-1\r\n"...)
	default:
		to = appendInteger(to, max(1, cellSeconds(d.RetryAfter)))
	}
	return appendInteger(to, cellSeconds(d.ResetAfter))
}

// cellSeconds rounds up from a fraction of a millisecond on, as redis-cell does.
func cellSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		s++
	}
	return s
}

// spelled is a limit as a client spells it, or what is wrong with it.
type spelled struct {
	limit   weir.Limit
	problem string
}

// mostSpelled bounds how many limits a connection remembers, longestSpelled of which
// length: no limit that a client repeats is longer.
const (
	mostSpelled    = 64
	longestSpelled = 256
)

// weirTake is WEIR.TAKE key limit [COST n].
func (c *conn) weirTake(b *batch, args [][]byte) {
	cost := int64(1)
	switch {
	case len(args) == 3:
	case len(args) == 5 && bytes.EqualFold(args[3], []byte("COST")):
		n, ok := integer(args[4])
		if !ok || n < 0 || n > algo.MaxCost {
			b.fail("ERR COST takes a whole number from 0 to 9007199254740991")
			return
		}
		cost = n
	case len(args) == 4 || len(args) == 5:
		b.fail("ERR syntax error: WEIR.TAKE key limit [COST n]")
		return
	default:
		b.fail("ERR wrong number of arguments for 'weir.take' command")
		return
	}
	if problem := keyProblem(args[1]); problem != "" {
		b.fail("ERR " + problem)
		return
	}
	l, known := c.limits[string(args[2])]
	if !known {
		limit, err := weir.ParseLimit(string(args[2]))
		l.limit = limit
		if err != nil {
			l.problem = oneLine(err.Error())
		}
		if len(args[2]) <= longestSpelled {
			c.remember(string(args[2]), l)
		}
	}
	if l.problem != "" {
		b.fail("ERR " + l.problem)
		return
	}
	b.ask(take, c.proto, args[1], &l.limit, cost, "")
}

func (c *conn) remember(text string, l spelled) {
	if c.limits == nil || len(c.limits) >= mostSpelled {
		c.limits = map[string]spelled{}
	}
	c.limits[text] = l
}

// keyProblem says what is wrong with a key. Keys are bytes here: Redis has no
// other.
func keyProblem(key []byte) string {
	switch {
	case len(key) == 0:
		return "the key is empty"
	case len(key) > 1024:
		return "the key is longer than 1024 bytes"
	}
	return ""
}

// printable makes text of a client fit for an error reply.
func printable(b []byte) string {
	s := string(b)
	if len(s) > 64 {
		s = s[:64]
	}
	return oneLine(s)
}

// oneLine keeps control characters out of a reply.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
