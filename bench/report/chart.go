package report

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Bar is one bar of a chart.
type Bar struct {
	Name  string
	Value float64
}

// Panel is a group of bars with one scale.
type Panel struct {
	Title string
	Bars  []Bar // the first is ours
}

const (
	chartWidth = 760
	nameWidth  = 190
	barHeight  = 20
	gap        = 6
	titleSpace = 34
)

// Chart draws the panels one below the other as SVG. It names its own colors
// and background, so that it reads the same on any page.
func Chart(panels []Panel) string {
	height := gap
	for _, p := range panels {
		height += titleSpace + len(p.Bars)*(barHeight+gap)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	y := gap
	for _, p := range panels {
		fmt.Fprintf(&b, `<text x="10" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n", y+20, escaped(p.Title))
		y += titleSpace
		most := 0.0
		for _, bar := range p.Bars {
			most = max(most, bar.Value)
		}
		for i, bar := range p.Bars {
			fill := "#9aa5b1"
			if i == 0 {
				fill = "#1f6feb"
			}
			width := 1
			if most > 0 {
				width = max(1, int(bar.Value/most*(chartWidth-nameWidth-110)))
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`, nameWidth-8, y+15, escaped(bar.Name))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, nameWidth, y, width, barHeight, fill)
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#222222">%s</text>`+"\n", nameWidth+width+6, y+15, number(bar.Value))
			y += barHeight + gap
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	// A strings.Builder takes everything.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
