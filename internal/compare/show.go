package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kerfdev/kerf/internal/rival"
)

// Version names the shape of the JSON document. Fields may be added; none is
// renamed or removed.
const Version = "kerf.dev/comparison/v1"

const hoursAMonth = 730

// A Side is one plan in figures.
type Side struct {
	Nodes        int      `json:"nodes"`
	CostPerHour  float64  `json:"costPerHour"`
	CostPerMonth float64  `json:"costPerMonth"`
	Bound        *float64 `json:"bound,omitempty"` // $/h that no plan can go below
	Placed       int      `json:"placed"`
	Unplaced     int      `json:"unplaced"`
	WallSeconds  float64  `json:"wallSeconds"`
	CPUSeconds   float64  `json:"cpuSeconds"`
}

// A Document is a comparison in JSON.
type Document struct {
	Version          string     `json:"version"`
	KarpenterVersion string     `json:"karpenterVersion"`
	NodeOverlay      bool       `json:"nodeOverlay"` // Karpenter had the overlays
	Summary          string     `json:"summary"`
	Cut              bool       `json:"cut,omitempty"`
	Pods             int        `json:"pods"` // that want a place
	Kerf             Side       `json:"kerf"`
	Karpenter        Side       `json:"karpenter"`
	NodeTypes        []SortDoc  `json:"nodeTypes"`
	OnlyKerf         []GroupDoc `json:"placedByKerfOnly"`
	OnlyKarpenter    []GroupDoc `json:"placedByKarpenterOnly"`
	Neither          int        `json:"placedByNeither"`
	Why              []string   `json:"why"`
}

// A SortDoc is a kind of node in JSON.
type SortDoc struct {
	Pool         string  `json:"pool"`
	Type         string  `json:"type"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"`
	Kerf         int     `json:"kerf"`
	Karpenter    int     `json:"karpenter"`
}

// A GroupDoc is pods that one plan leaves out, with the other's reasons.
type GroupDoc struct {
	Owner string   `json:"owner"`
	Count int      `json:"count"`
	Pods  []string `json:"pods"`
	Why   []string `json:"why"`
}

// Document puts the comparison into figures.
func (c *Comparison) Document() Document {
	onlyKerf, onlyKarpenter, neither := c.split()
	pods := c.asked()
	d := Document{
		Version: Version, KarpenterVersion: rival.Version, NodeOverlay: c.Given, Cut: c.Karpenter.Cut, Pods: pods,
		Kerf:      side(len(c.Kerf.Launches), c.Kerf.Cost, pods, c.unplaced(), c.Wall, c.CPU),
		Karpenter: side(len(c.Karpenter.Nodes), c.Karpenter.Cost, pods, len(c.Karpenter.Unplaced), c.Karpenter.Wall, c.Karpenter.CPU),
		NodeTypes: []SortDoc{}, OnlyKerf: c.groups(onlyKerf), OnlyKarpenter: c.groups(onlyKarpenter), Neither: neither, Why: append([]string{}, c.why()...),
	}
	if c.Kerf.Bound > 0 {
		b := round(c.Kerf.Bound)
		d.Kerf.Bound = &b
	}
	for _, s := range c.sorts() {
		d.NodeTypes = append(d.NodeTypes, SortDoc(s))
	}
	d.Summary = d.summary()
	return d
}

func side(nodes int, cost float64, pods, unplaced int, wall, cpu time.Duration) Side {
	return Side{
		Nodes: nodes, CostPerHour: round(cost), CostPerMonth: round(cost * hoursAMonth), Placed: pods - unplaced, Unplaced: unplaced,
		WallSeconds: wall.Seconds(), CPUSeconds: cpu.Seconds(),
	}
}

// round drops what adding up prices leaves behind the sixth place.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

func (c *Comparison) groups(in []Group) []GroupDoc {
	out := []GroupDoc{}
	for _, g := range in {
		d := GroupDoc{Owner: g.Owner, Count: len(g.Pods), Why: g.Why}
		for _, p := range g.Pods {
			d.Pods = append(d.Pods, c.Snapshot.Pods[p].Namespace+"/"+c.Snapshot.Pods[p].Name)
		}
		out = append(out, d)
	}
	return out
}

// encode writes a document as JSON.
func encode(doc any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	return b.Bytes(), nil
}

// most is how many kinds of node and groups of pods a table shows.
const most = 12

// Table writes the comparison for a person.
func (d Document) Table() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n  %s\n\n", d.Summary)
	d.figures(&b)
	d.types(&b)
	groups(&b, "placed by kerf only; karpenter leaves them out because", d.OnlyKerf, plainly)
	groups(&b, "placed by karpenter only; kerf leaves them out because", d.OnlyKarpenter, strings.TrimSpace)
	if d.Neither > 0 {
		fmt.Fprintf(&b, "\n  %s placed by neither; kerf plan says why\n", plural(d.Neither, "pod"))
	}
	if len(d.Why) > 0 {
		b.WriteString("\n  why they differ\n")
		for _, w := range d.Why {
			fmt.Fprintf(&b, "    - %s\n", w)
		}
	}
	return b.Bytes()
}

func (d Document) figures(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	name := "karpenter " + d.KarpenterVersion
	if d.NodeOverlay {
		name += " with NodeOverlays"
	}
	fmt.Fprintf(w, "  \tkerf\t%s\t\n", name)
	k, o := d.Kerf, d.Karpenter
	fmt.Fprintf(w, "  nodes\t%d\t%d\t\n", k.Nodes, o.Nodes)
	fmt.Fprintf(w, "  $/h\t%.3f\t%.3f\t\n", k.CostPerHour, o.CostPerHour)
	fmt.Fprintf(w, "  $/month\t%.2f\t%.2f\t\n", k.CostPerMonth, o.CostPerMonth)
	if k.Bound != nil {
		fmt.Fprintf(w, "  at least\t%.3f\t\t%s\n", *k.Bound, d.reach())
	}
	fmt.Fprintf(w, "  pods placed\t%d of %d\t%d of %d\t\n", k.Placed, d.Pods, o.Placed, d.Pods)
	fmt.Fprintf(w, "  CPU time\t%s\t%s\tkerf's with the proof\n", seconds(k.CPUSeconds), seconds(o.CPUSeconds))
	fmt.Fprintf(w, "  time\t%s\t%s\t\n", seconds(k.WallSeconds), seconds(o.WallSeconds))
	w.Flush()
}

// reach says which plans the bound is about: Kerf's rules keep more than
// Karpenter's do, so that a plan of Karpenter's may lie below it.
func (d Document) reach() string {
	if d.Kerf.Placed == d.Karpenter.Placed && d.Karpenter.CostPerHour < *d.Kerf.Bound {
		return "for any plan that keeps kerf's rules (below)"
	}
	return "for any plan that places what kerf's does"
}

func seconds(s float64) string {
	switch {
	case s < 0.1:
		return fmt.Sprintf("%.1f ms", s*1000)
	case s < 10:
		return fmt.Sprintf("%.2f s", s)
	}
	return fmt.Sprintf("%.0f s", s)
}

func (d Document) types(b *bytes.Buffer) {
	if len(d.NodeTypes) == 0 {
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  nodes\tpool\tcapacity\t$/h each\tkerf\tkarpenter")
	for i, s := range d.NodeTypes {
		if i == most {
			fmt.Fprintf(w, "  and %s more\n", plural(len(d.NodeTypes)-most, "kind"))
			break
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%.4f\t%s\t%s\n", s.Type, s.Pool, s.CapacityType, s.Price, some(s.Kerf), some(s.Karpenter))
	}
	w.Flush()
}

func some(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func groups(b *bytes.Buffer, title string, list []GroupDoc, words func(string) string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n  %s\n", title)
	for i, g := range list {
		if i == most {
			fmt.Fprintf(b, "    and %s more\n", plural(len(list)-most, "workload"))
			return
		}
		name := g.Owner
		if g.Count > 1 {
			name += fmt.Sprintf(" x%d", g.Count)
		}
		fmt.Fprintf(b, "    %s\n", name)
		for _, w := range g.Why {
			fmt.Fprintf(b, "      %s\n", words(w))
		}
	}
}
