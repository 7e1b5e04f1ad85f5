package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// The fixed columns of a book of types, in their order; label and resource
// columns follow.
const (
	colName = iota
	colArch
	colVCPU
	colMemMiB
	colPods
	colGPUMaker
	colGPUName
	colGPUCount
	colGPUMemMiB
	colGPUFraction
	fixed
)

// A machine is the hardware of a type before anything is kept of it.
type machine struct {
	name, arch         string
	vcpu, memMiB, pods int64 // pods 0 = the cloud's default
	gpus               []model.GPU
	labels             map[string]string // the cloud's own
	capacity           model.Resources   // extended resources
}

// A column says where the cells below it go.
type column struct {
	labels   []string
	resource string
}

// regions lists the sections of the price book.
func (c cloud) regions() []string {
	var out []string
	for rest := c.prices; ; {
		_, after, ok := strings.Cut(rest, "\n[")
		if !ok {
			return out
		}
		name, tail, _ := strings.Cut(after, "]")
		out, rest = append(out, name), tail
	}
}

// section returns the lines of a region in a price book.
func section(prices, region string) (string, bool) {
	_, after, ok := strings.Cut(prices, "\n["+region+"]\n")
	if !ok {
		return "", false
	}
	s, _, _ := strings.Cut(after, "\n[")
	return s, true
}

// directive returns the value of a line "key: value" above the rows.
func directive(text, key string) string {
	_, after, ok := strings.Cut("\n"+text, "\n"+key+": ")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// book builds the book of a region from its section of the price book.
func (c cloud) book(region, prices string) (Book, error) {
	b := Book{Cloud: c.name, Region: region, Date: directive(c.prices, "date"), PriceBasis: directive(prices, "basis")}
	types, err := c.readTypes(region)
	if err != nil {
		return Book{}, err
	}
	b.Types = types
	p := pricing{rate: 1}
	if _, rate, ok := strings.Cut(directive(c.prices, "currency"), " "); ok {
		if p.rate, err = strconv.ParseFloat(rate, 64); err != nil {
			return Book{}, fmt.Errorf("book %s: currency: %w", c.name, err)
		}
	}
	prefix, letters, _ := strings.Cut(directive(prices, "zones"), " ")
	p.prefix, p.zones = prefix, zoneNames(prefix, letters)
	for line := range strings.SplitSeq(strings.TrimSuffix(prices, "\n"), "\n") {
		note, isNote := strings.CutPrefix(line, "note: ")
		switch {
		case isNote:
			b.Notes = append(b.Notes, note)
		case strings.Contains(line, ": "): // a directive
		default:
			if err := p.offer(b.Types, line); err != nil {
				return Book{}, fmt.Errorf("book %s, region %s: %w", c.name, region, err)
			}
		}
	}
	b.Zones = zonesOf(b.Types, p.zones)
	return b, nil
}

func zoneNames(prefix, letters string) []string {
	out := make([]string, len(letters))
	for i := range letters {
		out[i] = prefix + letters[i:i+1]
	}
	return out
}

// zonesOf collects the zones of every offering and those given.
func zonesOf(types []model.InstanceType, zones []string) []string {
	out := slices.Clone(zones)
	for _, t := range types {
		for _, o := range t.Offerings {
			if !slices.Contains(out, o.Zone) {
				out = append(out, o.Zone)
			}
		}
	}
	slices.Sort(out)
	return out
}

// pricing turns rows of a section into offerings. Rows and types are sorted
// alike, so one pass over both is enough.
type pricing struct {
	rate   float64 // units of the book's currency for a dollar
	prefix string
	zones  []string // where everything is sold unless its row says otherwise
	next   int      // first type that the rows have not passed
	slab   []model.Offering
}

// offer adds the offerings of one row to its type.
func (p *pricing) offer(types []model.InstanceType, line string) error {
	name, rest, _ := strings.Cut(line, ",")
	onDemand, rest, _ := strings.Cut(rest, ",")
	spot, letters, _ := strings.Cut(rest, ",")
	for p.next < len(types) && types[p.next].Name < name {
		p.next++
	}
	if p.next == len(types) || types[p.next].Name != name {
		return fmt.Errorf("type %q is priced but not described, or out of order", name)
	}
	zones := p.zones
	if letters != "" {
		zones = zoneNames(p.prefix, letters)
	}
	if need := 2 * len(zones); cap(p.slab)-len(p.slab) < need {
		p.slab = make([]model.Offering, 0, max(need, 2048))
	}
	from := len(p.slab)
	for _, s := range [...]struct{ capacityType, amount string }{{model.OnDemand, onDemand}, {model.Spot, spot}} {
		if err := p.add(zones, s.capacityType, s.amount); err != nil {
			return fmt.Errorf("type %s: %w", name, err)
		}
	}
	types[p.next].Offerings = slices.Clip(p.slab[from:])
	sortOfferings(types[p.next].Offerings)
	return nil
}

// add appends an offering for each zone; an empty amount is not sold.
func (p *pricing) add(zones []string, capacityType, amount string) error {
	if amount == "" {
		return nil
	}
	number, estimated := strings.CutPrefix(amount, "~")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return err
	}
	if p.rate != 1 {
		v = math.Round(v/p.rate*1e6) / 1e6
	}
	for _, z := range zones {
		p.slab = append(p.slab, model.Offering{Zone: z, CapacityType: capacityType, Price: v, Estimated: estimated})
	}
	return nil
}

// sortOfferings puts the cheapest first; ties go by zone, then capacity type.
func sortOfferings(o []model.Offering) {
	slices.SortFunc(o, func(a, b model.Offering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	})
}

// readTypes builds every type of the cloud as it is in a region, without offerings.
func (c cloud) readTypes(region string) ([]model.InstanceType, error) {
	text := c.types
	for strings.HasPrefix(text, "#") {
		_, text, _ = strings.Cut(text, "\n")
	}
	header, text, _ := strings.Cut(text, "\n")
	columns := readHeader(header)
	out := make([]model.InstanceType, 0, strings.Count(text, "\n"))
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		m, err := readMachine(columns, line)
		if err != nil {
			return nil, fmt.Errorf("book %s: type %s: %w", c.name, m.name, err)
		}
		t := c.instanceType(&m)
		t.Labels[model.LabelRegion] = region
		out = append(out, t)
	}
	return out, nil
}

func readHeader(header string) []column {
	var out []column
	for h := range strings.SplitSeq(header, ",") {
		words := strings.Fields(h)
		c := column{}
		switch {
		case strings.HasPrefix(h, "+"):
			c.resource = h[1:]
		case len(out) < fixed:
			c.labels = words[1:]
		default:
			c.labels = words
		}
		out = append(out, c)
	}
	return out
}

// labelsHint is how many labels a type has at most, more or less; 28 fill a Go
// map of 32 slots.
const labelsHint = 28

// readMachine reads one line. Label values stay parts of the book's text.
func readMachine(columns []column, line string) (machine, error) {
	m := machine{labels: make(map[string]string, labelsHint), capacity: make(model.Resources, 8)}
	var cells [fixed]string
	var n numbers
	for i, rest, more := 0, line, true; more; i++ {
		var cell string
		cell, rest, more = strings.Cut(rest, ",")
		if cell == "" {
			continue
		}
		if cell == `""` {
			cell = ""
		}
		if i < fixed {
			cells[i] = cell
		}
		for _, l := range columns[i].labels {
			m.labels[l] = cell
		}
		if r := columns[i].resource; r != "" {
			m.capacity[r] = n.whole(cell)
		}
	}
	m.name, m.arch = cells[colName], cells[colArch]
	m.vcpu, m.memMiB, m.pods = n.whole(cells[colVCPU]), n.whole(cells[colMemMiB]), n.whole(cells[colPods])
	if cells[colGPUMaker] != "" {
		m.gpus = []model.GPU{{
			Manufacturer: cells[colGPUMaker], Model: cells[colGPUName],
			Count: n.whole(cells[colGPUCount]), MemoryMiB: n.whole(cells[colGPUMemMiB]), Fraction: n.share(cells[colGPUFraction]),
		}}
	}
	return m, n.err
}

// numbers reads cells; it keeps the first error.
type numbers struct{ err error }

func (n *numbers) whole(s string) int64 {
	if s == "" {
		return 0
	}
	v, err := strconv.ParseInt(s, 10, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

// share reads the fraction of a GPU, 1 when there is none.
func (n *numbers) share(s string) float64 {
	if s == "" {
		return 1
	}
	v, err := strconv.ParseFloat(s, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

// instanceType adds to a machine what every node has.
func (c cloud) instanceType(m *machine) model.InstanceType {
	m.labels[model.LabelInstanceType] = m.name
	m.labels[model.LabelArch] = m.arch
	m.labels[model.LabelOS] = "linux"
	if c.name == "aws" {
		m.labels["karpenter.k8s.aws/instance-tenancy"] = "default"
	}
	for i := range m.gpus {
		describe(&m.gpus[i])
		if r := gpuResource[m.gpus[i].Manufacturer]; r != "" {
			m.capacity[r] += m.gpus[i].Count
		}
	}
	allocatable := c.keeps.fill(m)
	return model.InstanceType{Name: m.name, Labels: m.labels, Capacity: m.capacity, Allocatable: allocatable, GPUs: m.gpus}
}

// gpuResource names the resource that a maker's plugin counts GPUs by.
var gpuResource = map[string]string{"nvidia": model.NvidiaGPU, "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}

// describe completes a GPU. EC2 counts a part of a GPU as none; a node with one
// has one device, which Kerf counts as such.
func describe(g *model.GPU) {
	if g.Fraction < 1 && g.Count == 0 {
		g.Count = 1
	}
	if g.Manufacturer == "nvidia" {
		g.Product, g.Family, g.Compute, _ = gpu.Describe(g.Model, g.MemoryMiB)
	}
}
