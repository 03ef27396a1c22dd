package sim

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir"
)

// The picture of a report: a strip for every row, all on one scale of time and
// height. Pale bars are what came, strong ones what was admitted.
const (
	pictureWidth = 760
	leftMargin   = 10
	stripTop     = 24 // room for a strip's title
	stripHeight  = 44
	stripGap     = 8
	axisSpace    = 22
	headSpace    = 32
)

// style follows the reader's page: it is light or dark as that is.
const style = `<style>
.bg{fill:#ffffff}.t{fill:#1f2933}.q{fill:#52606d}.o{fill:#d5dbe1}.a{fill:#1f6feb}.l{stroke:#9aa5b1}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.t{fill:#e6edf3}.q{fill:#9aa5b1}.o{fill:#3a424c}.a{fill:#4c9aff}.l{stroke:#52606d}}
</style>`

// SVG draws what Run returned for p and limit. The text tells all that the bars
// do, for those who do not see them.
func SVG(p *Preset, limit weir.Limit, r *Report) string {
	rows := append(append([]Row(nil), r.Algorithms...), r.Beside...)
	height := headSpace + len(rows)*(stripTop+stripHeight+stripGap) + axisSpace
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="sans-serif" font-size="13">`+"\n",
		pictureWidth, height, pictureWidth, height)
	title := p.Name + " against " + Spell(limit)
	fmt.Fprintf(&b, "<title>%s</title>\n%s\n", escaped(title), style)
	fmt.Fprintf(&b, `<rect class="bg" width="%d" height="%d"/>`+"\n", pictureWidth, height)
	text(&b, leftMargin, 20, "t", "start", `font-weight="bold" `, title)
	most := 1
	for _, row := range rows {
		for _, point := range row.Timeline {
			most = max(most, point.Offered)
		}
	}
	y := headSpace
	for i := range rows {
		strip(&b, y, &rows[i], limit.Period(), most)
		y += stripTop + stripHeight + stripGap
	}
	axis(&b, y, p.Length)
	b.WriteString("</svg>\n")
	return b.String()
}

func strip(b *strings.Builder, y int, row *Row, period time.Duration, most int) {
	text(b, leftMargin, y+16, "t", "start", "", row.Name())
	said := fmt.Sprintf("%d of %d admitted, at most %d in any %s", row.Admitted, row.Offered, row.WorstWindow, Span(period))
	text(b, pictureWidth-leftMargin, y+16, "q", "end", "", said)
	foot := y + stripTop + stripHeight
	width := float64(pictureWidth-2*leftMargin) / float64(len(row.Timeline))
	for _, layer := range []struct {
		class string
		value func(Point) int
	}{{"o", func(p Point) int { return p.Offered }}, {"a", func(p Point) int { return p.Admitted }}} {
		var path strings.Builder
		for i, point := range row.Timeline {
			if n := layer.value(point); n > 0 {
				tall := max(1, float64(n)/float64(most)*stripHeight)
				fmt.Fprintf(&path, "M%s %dv-%sh%sv%sz", short(leftMargin+float64(i)*width), foot, short(tall), short(max(width-0.4, 0.8)), short(tall))
			}
		}
		if path.Len() > 0 {
			fmt.Fprintf(b, `<path class="%s" d="%s"/>`+"\n", layer.class, path.String())
		}
	}
	fmt.Fprintf(b, `<line class="l" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", leftMargin, pictureWidth-leftMargin, foot, foot)
}

// axis draws six instants of the run.
func axis(b *strings.Builder, y int, long time.Duration) {
	const parts = 6
	for i := range parts + 1 {
		x := leftMargin + i*(pictureWidth-2*leftMargin)/parts
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case parts:
			anchor = "end"
		}
		text(b, x, y+10, "q", anchor, "", Instant(long*time.Duration(i)/parts))
	}
}

func text(b *strings.Builder, x, y int, class, anchor, more, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%d" y="%d" text-anchor="%s" %s>%s</text>`+"\n", class, x, y, anchor, more, escaped(s))
}

// escaped makes s text of XML. What escapes HTML does, once the characters that XML has
// no way to write are gone; encoding/xml would be linked for this alone.
func escaped(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, s))
}

// short is a number with one decimal, and none where it is whole.
func short(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// Name is what a row is called where it is drawn.
func (r *Row) Name() string {
	if r.Case == "" {
		return r.Algorithm
	}
	return r.Case + " (" + r.Algorithm + ")"
}

// Instant spells a time within a run: 1:05, and 0:00.5 where there is a part of
// a second.
func Instant(d time.Duration) string {
	s := fmt.Sprintf("%d:%02d", int(d/time.Minute), int(d/time.Second)%60)
	if part := d % time.Second / (100 * time.Millisecond); part > 0 {
		s += fmt.Sprintf(".%d", part)
	}
	return s
}

// Span spells a period without what is nothing: 1m, 1h30m, 500ms.
func Span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
