package accesslog

import "bytes"

// columns are those of a file in the W3C extended format, which IIS, CloudFront
// and others write. A line of its own names them, and they differ from file to
// file:
//
//	#Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken
//
// Without that line the columns could only be guessed, and such files are
// refused. The stamp is the end of a request, in UTC. How long it took is taken
// off where the unit is known: CloudFront writes seconds, IIS milliseconds.
type columns struct {
	place [nColumns]int // of each column in a line, from 1 on; 0 for none
	count int           // how many there are
	unit  float64       // of time-taken, in microseconds; 0 if not known
	iis   bool          // the file says that it is from Microsoft's
}

// The columns that are read.
const (
	colDate = iota
	colTime
	colIP
	colMethod
	colStem
	colQuery
	colURI
	colHost
	colAgent
	colReferer
	colForwarded
	colTaken
	colStatus
	nColumns
)

var columnNames = map[string]int{
	"date": colDate, "time": colTime, "c-ip": colIP, "cs-method": colMethod, "cs-uri-stem": colStem,
	"cs-uri-query": colQuery, "cs-uri": colURI, "cs-host": colHost, "cs(Host)": colHost, "x-host-header": colHost,
	"cs(User-Agent)": colAgent, "cs(Referer)": colReferer, "cs(Referrer)": colReferer, "x-forwarded-for": colForwarded,
	"cs(X-Forwarded-For)": colForwarded, "X-Forwarded-For": colForwarded, "time-taken": colTaken, "sc-status": colStatus,
}

// directive takes a line that begins with #.
func (p *parser) directive(line []byte) {
	if bytes.HasPrefix(line, []byte("#Software: Microsoft")) {
		p.columns.iis = true
	}
	names, ok := bytes.CutPrefix(line, []byte("#Fields:"))
	if !ok {
		return
	}
	c := columns{iis: p.columns.iis}
	edge := false
	for name := range bytes.FieldsSeq(names) {
		if bytes.HasPrefix(name, []byte("//")) {
			break
		}
		c.count++
		if at, known := columnNames[string(name)]; known {
			c.place[at] = c.count // the viewer's Host stands after CloudFront's own
		}
		edge = edge || bytes.HasPrefix(name, []byte("x-edge-"))
	}
	switch {
	case edge:
		c.unit = secondMicros
	case c.iis:
		c.unit = 1000
	}
	p.columns = c
}

func (p *parser) w3c(line []byte, r *Record) string {
	c := &p.columns
	if c.count == 0 {
		return noColumns
	}
	var found [nColumns][]byte
	rest, n := line, 0
	for len(rest) > 0 && n < c.count {
		var text []byte
		text, rest = field(rest)
		n++
		for at := range found {
			if c.place[at] == n {
				found[at] = text
			}
		}
	}
	if n < c.count {
		return "fewer columns than #Fields names"
	}
	if c.place[colDate] == 0 || c.place[colTime] == 0 || c.place[colIP]+c.place[colStem]+c.place[colURI] == 0 {
		return "#Fields names no date, time and client"
	}
	if len(found[colDate]) != 10 || len(found[colTime]) < 8 {
		return "date or time is none"
	}
	us, ok := p.stamps.iso(append(append(append(p.scratch[:0], found[colDate]...), ' '), found[colTime]...))
	if !ok {
		return "date or time is none"
	}
	if c.place[colStatus] > 0 && !isStatus(found[colStatus]) {
		return "the status is none"
	}
	r.Stamp = us
	if c.unit > 0 {
		r.Took = seconds(found[colTaken], c.unit)
	}
	r.setClient(&p.arena, found[colIP])
	r.Method = p.arena.method(found[colMethod])
	r.Host, r.Agent = p.arena.keep(found[colHost]), p.arena.keep(found[colAgent])
	r.Referer, r.Forwarded = p.arena.keep(found[colReferer]), p.arena.keep(found[colForwarded])
	if c.place[colStem] > 0 {
		r.Path, r.Query = p.arena.keep(found[colStem]), p.arena.keep(found[colQuery])
	} else {
		r.setTarget(&p.arena, found[colURI])
	}
	return ""
}

// field returns the next column, which may stand in quotes.
func field(b []byte) (text, rest []byte) {
	if b[0] == '"' {
		text, rest, _ = quoted(b)
	} else if i := bytes.IndexAny(b, "\t "); i >= 0 {
		text, rest = b[:i], b[i:]
	} else {
		return b, nil
	}
	return text, bytes.TrimLeft(rest, "\t ")
}
