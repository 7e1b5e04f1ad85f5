package render

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// Measures of the picture of one node, in user units; a card shows it about as
// many pixels wide.
const (
	pictureWidth = 320
	labelWidth   = 46
	rowGap       = 6
	gaugeHeight  = 8
	maxCells     = 48 // slices of one GPU that are drawn one by one
)

// A drawing gathers the elements of an SVG picture from the top down.
type drawing struct {
	b strings.Builder
	y float64
}

// picture draws a node: a row of slices per GPU, then cpu and memory.
func (f fleet) picture(n filling) template.HTML {
	var d drawing
	height := rowHeight(len(n.gpus))
	for i, g := range n.gpus {
		label := g.model
		if i > 0 && n.gpus[i-1].model == g.model {
			label = ""
		}
		d.text(0, d.y+height/2+4, "lab", label)
		if g.consumable {
			f.drawShares(&d, g, height)
		} else {
			f.drawSlices(&d, g, height)
		}
		d.y += height + rowGap
	}
	if len(n.gpus) > 0 {
		d.y += 4
	}
	d.gauge("cpu", n.cpu, ratioText(n.cpu, cores)+" cores")
	d.gauge("mem", n.mem, ratioText(n.mem, gib)+" GiB")
	return template.HTML(fmt.Sprintf( // every text is escaped by drawing
		`<svg viewBox="0 0 %d %s" role="img" aria-label="%s">%s</svg>`,
		pictureWidth, num(d.y), html.EscapeString(f.caption(n)), d.b.String()))
}

func rowHeight(gpus int) float64 {
	if gpus > 4 {
		return 15
	}
	return 22
}

// caption says what the picture shows.
func (f fleet) caption(n filling) string {
	var parts []string
	if len(n.gpus) > 0 {
		parts = append(parts, fmt.Sprintf("%s, %s in use", n.gpuLabel(), n.ratio()))
	}
	parts = append(parts, "cpu "+ratioText(n.cpu, cores)+" cores", "memory "+ratioText(n.mem, gib)+" GiB")
	for _, t := range n.tenants {
		parts = append(parts, fmt.Sprintf("%s ×%d", f.workloads[t.workload].name, t.count))
	}
	return strings.Join(parts, "; ")
}

// drawSlices draws a cell per slice, or runs of equal ones where cells would be
// too narrow to see.
func (f fleet) drawSlices(d *drawing, g gpu, height float64) {
	total := 0
	for _, s := range g.slices {
		total += s.weight
	}
	if total == 0 {
		return
	}
	gap := 3.0
	if len(g.slices) > maxCells {
		gap = 0
	} else if len(g.slices) > 16 {
		gap = 1.5
	}
	room := float64(pictureWidth-labelWidth) - gap*float64(len(g.slices)-1)
	x := float64(labelWidth)
	for i := 0; i < len(g.slices); {
		run := 1
		for gap == 0 && i+run < len(g.slices) && g.slices[i+run] == g.slices[i] {
			run++
		}
		w := room * float64(g.slices[i].weight*run) / float64(total)
		f.cell(d, x, w, height, g.slices[i], run)
		x += w + gap
		i += run
	}
}

func (f fleet) cell(d *drawing, x, w, h float64, s slot, run int) {
	if s.workload == free {
		d.rect(x, w, h, "free", shortResource(s.resource)+", free")
		return
	}
	title := f.workloads[s.workload].name + ", " + shortResource(s.resource)
	if run > 1 {
		title += fmt.Sprintf(" ×%d", run)
	}
	d.rect(x, w, h, hue(s.workload), title)
	d.tag(x+w/2, h, w, s.workload)
}

func (f fleet) drawShares(d *drawing, g gpu, height float64) {
	x, room := float64(labelWidth), float64(pictureWidth-labelWidth)
	d.rect(x, room, height, "free", "free")
	for _, s := range g.shares {
		w := room * s.part
		d.rect(x, max(w-1, 1), height, hue(s.workload), fmt.Sprintf("%s, %.0f %%", f.workloads[s.workload].name, s.part*100))
		d.tag(x+w/2, height, w, s.workload)
		x += w
	}
}

// gauge draws a bar with its figure; what daemonsets take is lighter.
func (d *drawing) gauge(label string, u use, figure string) {
	const figureWidth = 108
	x, room := float64(labelWidth), float64(pictureWidth-labelWidth-figureWidth)
	d.text(0, d.y+gaugeHeight, "lab", label)
	d.rect(x, room, gaugeHeight, "rail", "")
	if u.total > 0 {
		over := room * min(float64(u.overhead)/float64(u.total), 1)
		all := room * min(float64(u.used)/float64(u.total), 1)
		if all > 0 {
			d.rect(x, max(all, 2), gaugeHeight, "fill", "")
		}
		if over > 0 {
			d.rect(x, max(over, 2), gaugeHeight, "over", "taken by daemonsets")
		}
	}
	fmt.Fprintf(&d.b, `<text class="fig" x="%d" y="%s" text-anchor="end">%s</text>`, pictureWidth, num(d.y+gaugeHeight), html.EscapeString(figure))
	d.y += gaugeHeight + 10
}

func (d *drawing) rect(x, w, h float64, class, title string) {
	inner := ""
	if title != "" {
		inner = "<title>" + html.EscapeString(title) + "</title>"
	}
	fmt.Fprintf(&d.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s">%s</rect>`,
		class, num(x), num(d.y), num(max(w, 0.5)), num(h), num(min(3, w/3)), inner)
}

// tag writes a workload's number into its cell where there is room for it.
func (d *drawing) tag(x, h, w float64, workload int) {
	text := fmt.Sprint(workload + 1)
	if w < float64(7*len(text)+4) {
		return
	}
	fmt.Fprintf(&d.b, `<text class="tag t%s" x="%s" y="%s" text-anchor="middle">%s</text>`, hue(workload)[1:], num(x), num(d.y+h/2+4), text)
}

func (d *drawing) text(x, y float64, class, text string) {
	if text != "" {
		fmt.Fprintf(&d.b, `<text class="%s" x="%s" y="%s">%s</text>`, class, num(x), num(y), html.EscapeString(text))
	}
}

// num writes a coordinate with at most one decimal.
func num(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
