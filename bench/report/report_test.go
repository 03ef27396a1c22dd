package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAims(t *testing.T) {
	aims := []Aim{
		{What: "time", Got: 0.5, Bound: 0.5, Unit: "×"},
		{What: "checks", Got: 9.99, Bound: 10, Least: true, Unit: "×"},
		{What: "allocations", Got: 0.01, Bound: 0},
		{What: "more", Got: 12_345.4, Bound: 10, Least: true},
	}
	const want = `| promise | measured | bound | kept |
| --- | ---: | ---: | --- |
| time | 0.50× | ≤ 0.50× | yes |
| checks | 9.99× | ≥ 10× | **no** |
| allocations | 0.01 | ≤ 0 | **no** |
| more | 12,345 | ≥ 10 | yes |
`
	if got := Aims(aims); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Missed(aims); got != "checks  9.99×  ≥ 10×\nallocations  0.01  ≤ 0\n" {
		t.Errorf("missed:\n%s", got)
	}
}

func TestChartIsXML(t *testing.T) {
	svg := Chart([]Panel{{"a < b", []Bar{{"ours & theirs", 2}, {"none", 0}}}, {Title: "empty"}})
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if !strings.Contains(svg, "a &lt; b") || strings.Count(svg, "<rect") != 3 {
		t.Errorf("chart:\n%s", svg)
	}
}

func TestMachineNamesWhatCounts(t *testing.T) {
	m := Machine()
	for _, part := range []string{"date: ", "processor: ", "Go: go"} {
		if !strings.Contains(m, part) {
			t.Errorf("%q is missing in\n%s", part, m)
		}
	}
}
