package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"
)

//go:embed page.html
var pageText string

// page is what the template shows.
type page struct {
	Policy                                  string
	Requests, SkippedLines, Allowed, Denied int64
	Share, From, To, Worst                  string
	Chart                                   chart
	Rules                                   []pageRule
}

type pageRule struct {
	Rule, Limit                             string
	Decides                                 bool
	Matched, Denied, Callers, CallersDenied int64
	Share, Headroom, First, Last, Worst     string
	Chart                                   chart
	Top                                     []Caller
	More                                    int64
}

// chart is bars over time, already in the units of the drawing.
type chart struct {
	Width, Height, Floor, Foot int
	Most                       int64
	Per, Start, End            string
	Bars                       []bar
}

type bar struct {
	X, W, AllowedY, Allowed, DeniedY, Denied string
	Title                                    string
}

const (
	chartWidth, chartHeight = 960, 190
	chartLeft, chartTop     = 50, 12
	chartFloor              = 165
)

// WriteHTML writes the report as one page that needs nothing else. policy names
// what was replayed. What stands in logs is escaped.
func (r *Report) WriteHTML(w io.Writer, policy string) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	p := page{
		Policy: policy, Requests: r.Requests, SkippedLines: r.SkippedLines, Allowed: r.Allowed, Denied: r.Denied,
		Share: percent(r.Denied, r.Requests), Worst: r.Worst.text(), Chart: r.series.chart(&r.series),
	}
	if r.From != nil {
		p.From, p.To = moment(*r.From), moment(*r.To)
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		headroom := "–"
		switch {
		case rule.Denied > 0:
			headroom = "none"
		case rule.Headroom >= 0:
			headroom = strconv.Itoa(rule.Headroom) + " %"
		}
		p.Rules = append(p.Rules, pageRule{
			Rule: rule.Rule, Limit: rule.Limit, Decides: rule.Decides,
			Matched: rule.Matched, Denied: rule.Denied, Callers: rule.Callers, CallersDenied: rule.CallersDenied,
			Share: percent(rule.Denied, rule.Matched), Headroom: headroom, First: moment(rule.First), Last: moment(rule.Last),
			Worst: rule.Worst.text(), Chart: rule.series.chart(&r.series), Top: rule.Top, More: rule.CallersDenied - int64(len(rule.Top)),
		})
	}
	return t.Execute(w, p)
}

func (m Minute) text() string { return fmt.Sprintf("%s: %d refused", moment(m.Start), m.Denied) }

func moment(t time.Time) string { return t.Format("2006-01-02 15:04:05") }

func percent(n, all int64) string {
	if all == 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(n)/float64(all), 'f', 2, 64) + " %"
}

// span spells the width of a bucket.
func span(us int64) string {
	n, unit := us/1e6, "s"
	for _, u := range []struct {
		n    int64
		name string
	}{{60, "min"}, {60, "h"}, {24, "d"}} {
		if n%u.n != 0 {
			break
		}
		n, unit = n/u.n, u.name
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// chart draws s over the time of the whole replay, which is that of frame.
func (s *series) chart(frame *series) chart {
	c := chart{Width: chartWidth, Height: chartHeight, Floor: chartFloor, Foot: chartHeight - 6}
	if len(s.buckets) == 0 {
		return c
	}
	s = s.within(frame)
	for _, b := range s.buckets {
		c.Most = max(c.Most, b.allowed+b.denied)
	}
	c.Per = span(s.width)
	c.Start, c.End = moment(instant(s.start)), moment(instant(s.start+s.width*int64(len(s.buckets))))
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
	width := float64(chartWidth-chartLeft) / float64(len(s.buckets))
	for i, b := range s.buckets {
		if b.allowed+b.denied == 0 {
			continue
		}
		scale := float64(chartFloor-chartTop) / float64(c.Most)
		allowed, denied := float64(b.allowed)*scale, float64(b.denied)*scale
		one := bar{X: number(chartLeft + float64(i)*width), W: number(max(width-0.5, 0.5))}
		if b.allowed > 0 {
			one.AllowedY, one.Allowed = number(chartFloor-allowed), number(allowed)
		}
		if b.denied > 0 {
			denied = max(denied, 1) // a single refusal is to be seen
			one.DeniedY, one.Denied = number(chartFloor-allowed-denied), number(denied)
			one.Title = fmt.Sprintf("%s: %d refused, %d admitted", moment(instant(s.start+int64(i)*s.width)), b.denied, b.allowed)
		}
		c.Bars = append(c.Bars, one)
	}
	return c
}
