package render

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A Listing is a list of instance types with where its figures come from.
type Listing struct {
	Types  []model.InstanceType
	Region string
	Basis  string // of the prices
}

// Types writes a listing, the cheapest GPU first; types without GPUs by price.
func Types(w io.Writer, l Listing, o Options) error {
	p := newPage(o)
	types := slices.Clone(l.Types)
	sortTypes(types)
	rows := [][]string{{"type", "GPUs", "GPU memory", "cpu", "memory", "on-demand", "spot", "$/h a GPU"}}
	for _, t := range types {
		rows = append(rows, p.typeRow(t))
	}
	head := count(len(types), "instance type")
	p.line()
	p.split("  "+p.paint(bold, head), p.paint(dim, p.say(origin(Report{Snapshot: model.Snapshot{Region: l.Region, PriceBasis: l.Basis}}))))
	p.line()
	p.grid(rows)
	return p.flush(w)
}

func (p *page) typeRow(t model.InstanceType) []string {
	var gpus, memory []string
	for _, g := range t.GPUs {
		gpus = append(gpus, p.say(gpuText(g)))
		memory = append(memory, binary(g.MemoryMiB<<20))
	}
	return []string{
		t.Name, strings.Join(gpus, " + "), strings.Join(memory, " + "),
		amount(model.CPU, t.Capacity[model.CPU]), binaryGiB(t.Capacity[model.Memory]),
		priceText(t, model.OnDemand), priceText(t, model.Spot), perGPUText(t),
	}
}

// binaryGiB writes a machine's memory, which is never a whole number once the
// firmware has had its part, to the GiB.
func binaryGiB(bytes int64) string {
	v := float64(bytes) / (1 << 30)
	if v < 10 {
		return fmt.Sprintf("%.1fGi", v)
	}
	return fmt.Sprintf("%.0fGi", v)
}

// gpuText writes "4 × A10G", and a fractional GPU as "1 × 1/8 L4".
func gpuText(g model.GPU) string {
	name := modelName(g.Model)
	if g.Fraction > 0 && g.Fraction < 1 {
		name = fmt.Sprintf("1/%.0f %s", 1/g.Fraction, name)
	}
	return fmt.Sprintf("%d × %s", g.Count, name)
}

// lowest returns the lowest price of a capacity type, with whether it is an estimate.
func lowest(t model.InstanceType, capacityType string) (price float64, estimated, ok bool) {
	for _, o := range t.Offerings {
		if o.CapacityType == capacityType && (!ok || o.Price < price) {
			price, estimated, ok = o.Price, o.Estimated, true
		}
	}
	return price, estimated, ok
}

func priceText(t model.InstanceType, capacityType string) string {
	price, estimated, ok := lowest(t, capacityType)
	if !ok {
		return "-"
	}
	if estimated {
		return "~" + hourly(price)
	}
	return hourly(price)
}

func perGPUText(t model.InstanceType) string {
	if v := perGPU(t); !math.IsInf(v, 1) && gpuCount(t) > 0 {
		return hourly(v)
	}
	return ""
}

func gpuCount(t model.InstanceType) (n float64) {
	for _, g := range t.GPUs {
		f := g.Fraction
		if f == 0 {
			f = 1
		}
		n += float64(g.Count) * f
	}
	return n
}

// perGPU is the lowest price of a type divided by its whole GPUs, or the price
// itself where there are none; infinite when it is not sold.
func perGPU(t model.InstanceType) float64 {
	best := math.Inf(1)
	for _, o := range t.Offerings {
		best = min(best, o.Price)
	}
	if n := gpuCount(t); n > 0 {
		return best / n
	}
	return best
}

// sortTypes orders types by price per GPU; those without GPUs come last.
func sortTypes(types []model.InstanceType) {
	slices.SortStableFunc(types, func(a, b model.InstanceType) int {
		return cmp.Or(
			cmp.Compare(min(len(b.GPUs), 1), min(len(a.GPUs), 1)),
			cmp.Compare(perGPU(a), perGPU(b)),
			strings.Compare(a.Name, b.Name))
	})
}

// grid writes rows in columns: the first two to the left, figures to the right.
// Columns that do not fit the page are left out, those before the last first.
func (p *page) grid(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], wide(c))
		}
	}
	drop := map[int]bool{}
	for i, w := range widths {
		drop[i] = w == 0 || !slices.ContainsFunc(rows[1:], func(r []string) bool { return r[i] != "" })
	}
	for _, i := range []int{2, 4, 3} {
		if rowWidth(widths, drop) > p.Width && i < len(widths) {
			drop[i] = true
		}
	}
	for n, r := range rows {
		var b strings.Builder
		b.WriteString("  ")
		for i, c := range r {
			switch {
			case drop[i]:
			case i < 2:
				b.WriteString(pad(c, widths[i]) + "  ")
			default:
				b.WriteString(padLeft(c, widths[i]) + "  ")
			}
		}
		text := b.String()
		if n == 0 {
			text = p.paint(dim, text)
		}
		p.line(text)
	}
}

func rowWidth(widths []int, drop map[int]bool) int {
	n := 2
	for i, w := range widths {
		if !drop[i] {
			n += w + 2
		}
	}
	return n
}
