package suite

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the picture in pixels.
const (
	width     = 920
	left      = 252 // where bars begin
	right     = 150 // room for the figures behind the longest bar
	top       = 96
	rowHeight = 74
	barHeight = 14
)

// style draws in the colours of the page around it, light or dark.
const style = `
    .bg { fill: #ffffff } .ink { fill: #1c2330 } .soft { fill: #667085 } .grid { stroke: #e4e7ec }
    .kerf { fill: #0f9d76 } .karpenter { fill: #7c8db5 } .alone { fill: #cdd3de } .bound { stroke: #c2410c; stroke-width: 2.5 }
    text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif } .h { font-size: 17px; font-weight: 650 } .n { font-weight: 600; font-size: 13px }
    .v { font-variant-numeric: tabular-nums; font-size: 11.5px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
    @media (prefers-color-scheme: dark) {
      .bg { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #8b98a9 } .grid { stroke: #242c38 }
      .kerf { fill: #2fc298 } .karpenter { fill: #6478a8 } .alone { fill: #39424f } .bound { stroke: #fb923c } .v { stroke: #0d1117 }
    }
`

// Picture draws what each workload costs: the bound, Kerf, Karpenter and one pod
// a node, as multiples of Kerf's cost.
func (r Report) Picture() string {
	var rows []Row
	most := 1.0
	for _, row := range r.Rows {
		if row.picture && row.Absent == "" && row.Kerf.Dollars > 0 {
			rows = append(rows, row)
			most = max(most, row.Rival.Dollars/row.Kerf.Dollars, row.Alone/row.Kerf.Dollars)
		}
	}
	d := drawing{scale: (width - left - right) / most}
	height := top + rowHeight*len(rows) + 34
	fmt.Fprintf(&d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t">`+"\n", width, height, width, height)
	fmt.Fprintf(&d, "  <title id=\"t\">Cost of each workload with Kerf, with Karpenter and with one pod a node</title>\n  <style>%s  </style>\n", style)
	fmt.Fprintf(&d, `  <rect class="bg" width="%d" height="%d" rx="10"/>`+"\n", width, height)
	d.text(24, 34, "ink h", "What the same pods cost an hour")
	d.legend()
	d.grid(most, top-8, height-30)
	for i, row := range rows {
		d.row(top+rowHeight*i, row)
	}
	d.text(24, height-12, "soft", fmt.Sprintf("multiples of Kerf's cost · %s · make bench", r.Machine.Day))
	d.WriteString("</svg>\n")
	return d.String()
}

// A drawing is a picture in the making.
type drawing struct {
	strings.Builder
	scale float64 // pixels for Kerf's cost
}

func (d *drawing) text(x, y int, class, text string) {
	fmt.Fprintf(d, `  <text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, html.EscapeString(text))
}

func (d *drawing) legend() {
	x := 24
	for _, l := range []struct{ class, name string }{{"kerf", "Kerf"}, {"karpenter", "Karpenter, at its best case"}, {"alone", "one pod a node"}} {
		fmt.Fprintf(d, `  <rect class="%s" x="%d" y="51" width="12" height="12" rx="3"/>`+"\n", l.class, x)
		d.text(x+18, 61, "soft", l.name)
		x += 46 + 6*len(l.name)
	}
	fmt.Fprintf(d, `  <line class="bound" x1="%d" x2="%d" y1="49" y2="65"/>`+"\n", x+4, x+4)
	d.text(x+14, 61, "soft", "no plan can cost less")
}

func (d *drawing) grid(most float64, from, to int) {
	step := 0.5
	if most > 4 {
		step = 1
	}
	for v := 0.0; v <= most+1e-9; v += step {
		x := left + v*d.scale
		fmt.Fprintf(d, `  <line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, from, to)
		if v > 0 {
			fmt.Fprintf(d, `  <text class="soft v" x="%.1f" y="%d" text-anchor="middle">%g×</text>`+"\n", x, from-4, v)
		}
	}
}

func (d *drawing) row(y int, r Row) {
	d.text(24, y+17, "ink n", r.Name)
	d.text(24, y+35, "soft", fmt.Sprintf("%s pods", thousands(float64(r.Pods))))
	if r.Rival.CPU > 0 && r.Kerf.CPU > 0 {
		d.text(24, y+52, "soft", fmt.Sprintf("CPU time %s s, Karpenter %s s", figure(r.Kerf.CPU.Seconds()), figure(r.Rival.CPU.Seconds())))
	}
	d.bar(y+6, "kerf", r.Kerf.Dollars, r.Kerf.Dollars)
	d.bar(y+6+barHeight+4, "karpenter", r.Rival.Dollars, r.Kerf.Dollars)
	d.bar(y+6+2*(barHeight+4), "alone", r.Alone, r.Kerf.Dollars)
	if r.Kerf.Bound > 0 {
		x := left + r.Kerf.Bound/r.Kerf.Dollars*d.scale
		fmt.Fprintf(d, `  <line class="bound" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", x, x, y+2, y+6+3*barHeight+12)
	}
}

func (d *drawing) bar(y int, class string, cost, unit float64) {
	if cost <= 0 {
		return
	}
	w := cost / unit * d.scale
	fmt.Fprintf(d, `  <rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, left, y, w, barHeight)
	label := "$" + thousands(cost)
	if class != "kerf" {
		label += fmt.Sprintf(`<tspan class="soft" dx="7">%.2f×</tspan>`, cost/unit)
	}
	fmt.Fprintf(d, `  <text class="ink v" x="%.1f" y="%d">%s</text>`+"\n", left+w+8, y+barHeight-3, label)
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprint(int64(math.Round(v)))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
