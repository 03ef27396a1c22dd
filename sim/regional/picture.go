package regional

import (
	"fmt"
	"strings"
)

// curve is one line of a picture.
type curve struct {
	name  string
	class string
	ys    []float64
}

const (
	wide, high = 640, 240
	left, low  = 56, 40
)

// draw draws curves over the same xs as an SVG. The y axis begins at 0.
func draw(title, xName, yName string, xs []float64, curves []curve) string {
	most := 1.0
	for _, c := range curves {
		for _, y := range c.ys {
			most = max(most, y)
		}
	}
	first, last := xs[0], xs[len(xs)-1]
	x := func(v float64) float64 { return left + (v-first)/(last-first)*(wide-left-16) }
	y := func(v float64) float64 { return high - low - max(v, 0)/most*(high-low-28) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>text{font:12px sans-serif;fill:#57606a}path{fill:none;stroke-width:2}.global{stroke:#0969da}.share{stroke:#1a7f37}.bound{stroke:#cf222e;stroke-dasharray:5 4}.axis{stroke:#8c959f;stroke-width:1}</style>
<path class="axis" d="M%d %d H%d M%d %d V%d"/>
`, wide, high, title, left, high-low, wide-16, left, high-low, 24)
	for _, c := range curves {
		fmt.Fprintf(&b, `<path class="%s" d="`, c.class)
		for i, v := range c.ys {
			fmt.Fprintf(&b, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x(xs[i]), y(v))
		}
		b.WriteString("\"/>\n")
		end := len(c.ys) - 1
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", wide-18, y(c.ys[end])-5, c.name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">%g</text><text x="%d" y="%d" text-anchor="end">%g %s</text>
<text x="%d" y="%d" text-anchor="end">%.0f</text><text x="%d" y="16">%s</text>
</svg>
`, left, high-low+18, first, wide-16, high-low+18, last, xName, left-6, 32, most, left, yName)
	return b.String()
}
