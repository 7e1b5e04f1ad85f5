package render

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
)

//go:embed page.html.tmpl
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// HTML writes the report as one page that needs nothing else: no network, no
// script, no font.
func HTML(w io.Writer, r Report) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, newSheet(r)); err != nil {
		return fmt.Errorf("render the page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Caps that keep a page of thousands of nodes light enough for a phone.
const (
	pageKinds    = 40
	pageFillings = 12 // of one kind; fewer where there are many kinds
	pageCards    = 96
	pageLegend   = 12
	spendBars    = 12
	hues         = 8 // workload colours; the ninth and later share a grey
)

// A sheet is what the template shows.
type sheet struct {
	Title    string
	Stats    []stat
	Placed   string
	Bound    string
	Basis    string
	Legend   []chip
	MoreKeys int
	Spend    []spend
	Launches section
	Existing section
	Missing  string // "2 of 28 pods"
	Causes   []causeView
	Relaxed  []string
	Tally    string
	Notes    []noteView
	Infos    []noteView
}

type stat struct{ Value, Unit, Detail string }

// A chip names a workload beside its colour and number.
type chip struct {
	Tag   int
	Class string
	Name  string
	Count string
}

// A spend is the share of one kind of nodes in the price of all; of its bar the
// part in use is darker.
type spend struct {
	Name, Detail, Price string
	Share, Used         string // percent of the bar's full length
}

type section struct {
	Sum   string
	Kinds []kindView
	More  string
}

type kindView struct {
	Pool, Name, Detail, Price string
	Cards                     []card
	More                      string
}

type card struct {
	Title   string
	Details []string
	Stacked bool
	Picture template.HTML // made by picture, which escapes what it is given
	Pods    []chip
	More    string
}

type causeView struct {
	Who, Asks string
	Reasons   []reasonView
}

type reasonView struct {
	Spot, Text string
	Fixes      []string
}

type noteView struct{ Severity, Place, Object, Text, Fix string }

func newSheet(r Report) sheet {
	f := newFleet(r)
	s := sheet{
		Title:    "Kerf plan: " + count(f.total.nodes, "node") + ", " + hourly(f.total.cost) + " $/h",
		Stats:    stats(f),
		Bound:    boundLine(r.Plan),
		Placed:   strings.TrimSuffix(placedLine(r, f), " (reasons below)"),
		Basis:    origin(r),
		Launches: sectionOf(f, f.launches, f.total),
		Existing: sectionOf(f, f.existing, f.standing),
	}
	s.Legend, s.MoreKeys = legend(f)
	s.Spend = spending(f)
	causes := explain.Group(r.Snapshot, r.Plan.Unplaced)
	if n := left(causes); n > 0 {
		s.Missing = number(n) + " of " + count(len(r.Snapshot.Pods), "pod")
	}
	for _, c := range causes {
		s.Causes = append(s.Causes, viewCause(c))
	}
	for _, x := range r.Trace.Relaxed {
		s.Relaxed = append(s.Relaxed, f.list(x.Pods)+": "+relaxation(x))
	}
	notes := Sorted(r.Notes)
	s.Tally = tallyNotes(notes)
	for _, n := range notes {
		v := noteView{Severity: n.Severity.String(), Place: where(n), Object: n.Place.Object, Text: n.Text, Fix: n.Fix}
		if v.Object == v.Place {
			v.Object = ""
		}
		if n.Severity == model.Info {
			s.Infos = append(s.Infos, v)
		} else {
			s.Notes = append(s.Notes, v)
		}
	}
	return s
}

func stats(f fleet) []stat {
	t := f.total
	out := []stat{{Value: number(t.nodes), Unit: plural(t.nodes, "node"), Detail: "to launch"}}
	if t.gpus > 0 {
		detail := number(t.busy) + " in use"
		if t.sliced {
			detail = fmt.Sprintf("%s, %s in use", count(t.slices, "slice"), number(t.used))
		}
		out = append(out, stat{Value: number(t.gpus), Unit: plural(t.gpus, "GPU"), Detail: detail})
	}
	detail := t.bought()
	if f.standing.cost > 0 {
		detail = strings.TrimPrefix(detail+", beside "+hourly(f.standing.cost)+" for existing nodes", ", ")
	}
	return append(out,
		stat{Value: hourly(t.cost), Unit: "$/h", Detail: detail},
		stat{Value: monthly(t.cost), Unit: "$/month", Detail: "of 730 hours"})
}

// spending compares kinds of nodes by price, the dearest first, where there are
// enough of them to compare.
func spending(f fleet) []spend {
	if len(f.launches) < 4 || f.total.cost <= 0 {
		return nil
	}
	kinds := slices.Clone(f.launches)
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.cost, a.cost) })
	var out []spend
	for i, k := range kinds {
		if i == spendBars {
			rest := beyond(kinds, kinds[:i])
			other := spendOf(fmt.Sprintf("%d other kinds", len(kinds)-i), rest, kinds[0].cost)
			other.Share, other.Used = "0", "0" // together they may well cost more than the dearest kind
			return append(out, other)
		}
		out = append(out, spendOf(number(k.nodes)+" × "+k.typ, k.tally, kinds[0].cost))
		out[i].Detail = strings.TrimSuffix(cmp.Or(k.pool, "no pool")+", "+k.capacityType, ", ") + ", " + out[i].Detail
	}
	return out
}

// spendOf measures a tally against the dearest kind.
func spendOf(name string, t tally, most float64) spend {
	part, what := float64(t.used)/float64(max(t.slices, 1)), "GPU"
	if t.slices == 0 {
		part, what = float64(t.cpu.used)/float64(max(t.cpu.total, 1)), "cpu"
	}
	share := 100 * min(t.cost/most, 1)
	return spend{
		Name: name, Detail: fmt.Sprintf("%.0f %% of %s in use", part*100, what), Price: hourly(t.cost) + " $/h",
		Share: fmt.Sprintf("%.1f", share), Used: fmt.Sprintf("%.1f", share*min(part, 1)),
	}
}

func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

// legend names the workloads that hold GPUs, in the order of their colours; the
// others have no colour in the picture.
func legend(f fleet) (chips []chip, more int) {
	seated := map[int]bool{}
	for _, k := range slices.Concat(f.launches, f.existing) {
		for _, n := range k.fillings {
			for _, g := range n.gpus {
				for _, s := range g.slices {
					seated[s.workload] = true
				}
				for _, s := range g.shares {
					seated[s.workload] = true
				}
			}
		}
	}
	for w := range f.workloads {
		if !seated[w] {
			continue
		}
		if len(chips) == pageLegend {
			more++
			continue
		}
		chips = append(chips, f.chip(tenant{workload: w, count: f.workloads[w].pods}, true))
	}
	return chips, more
}

// chip labels some pods; coloured says whether they hold GPUs.
func (f fleet) chip(t tenant, coloured bool) chip {
	c := chip{Tag: t.workload + 1, Class: "plain", Name: f.workloads[t.workload].name}
	if coloured {
		c.Class = hue(t.workload)
	}
	if t.count > 1 {
		c.Count = "×" + number(t.count)
	}
	return c
}

func hue(w int) string {
	if w >= hues {
		return "w0"
	}
	return fmt.Sprintf("w%d", w+1)
}

func sectionOf(f fleet, kinds []kind, t tally) section {
	var out section
	shown := dearest(kinds, pageKinds)
	limit := min(pageFillings, max(3, pageCards/max(len(shown), 1)))
	for i, k := range shown {
		v := viewKind(f, k, limit)
		if i > 0 && shown[i-1].pool == k.pool {
			v.Pool = ""
		}
		out.Kinds = append(out.Kinds, v)
	}
	if t.nodes > 0 {
		out.Sum = count(t.nodes, "node")
		if t.cost > 0 {
			out.Sum += " · " + hourly(t.cost) + " $/h"
		}
	}
	if n := len(kinds) - len(shown); n > 0 {
		rest := beyond(kinds, shown)
		out.More = fmt.Sprintf("and %s more: %s, %s, %s $/h", count(n, "kind"), count(rest.nodes, "node"), sum(rest), hourly(rest.cost))
	}
	return out
}

func viewKind(f fleet, k kind, limit int) kindView {
	v := kindView{Pool: cmp.Or(k.pool, "no pool"), Name: fmt.Sprintf("%s × %s", number(k.nodes), k.typ)}
	detail := []string{}
	if k.capacityType != "" {
		detail = append(detail, k.capacityType)
	}
	if len(k.zones) > 0 && len(k.zones) <= 4 {
		detail = append(detail, strings.Join(k.zones, ", "))
	}
	if len(k.configs) > 0 {
		detail = append(detail, "config "+strings.Join(k.configs, ", "))
	}
	v.Detail = strings.Join(detail, " · ")
	if k.price > 0 {
		v.Price = hourly(k.price) + " $/h"
		if k.nodes > 1 {
			v.Price += " each"
		}
	}
	shown := k.fillings
	if len(shown) > limit+1 {
		shown = shown[:limit]
	}
	for _, n := range shown {
		v.Cards = append(v.Cards, viewCard(f, n))
	}
	if k.nodes == 1 && len(k.fillings[0].names) == 0 {
		v.Cards[0].Title = "" // the line above says it
	}
	if len(shown) < len(k.fillings) {
		v.More = hiddenText(k, len(shown))
	}
	return v
}

const cardPods = 8

func viewCard(f fleet, n filling) card {
	c := card{Title: count(n.count, "node"), Stacked: n.count > 1, Picture: f.picture(n)}
	switch {
	case len(n.names) == 1:
		c.Title = n.names[0]
	case len(n.names) > 1:
		c.Title = fmt.Sprintf("%s and %d more", n.names[0], len(n.names)-1)
	case n.count > 1:
		c.Title = number(n.count) + " nodes alike"
	}
	if n.unready != "" {
		c.Details = []string{n.unready}
	}
	if kinds := n.byResource(); len(kinds) > 1 {
		c.Details = append(c.Details, kinds...)
	}
	seated := map[int]bool{}
	for _, g := range n.gpus {
		for _, s := range g.slices {
			seated[s.workload] = true
		}
		for _, s := range g.shares {
			seated[s.workload] = true
		}
	}
	for i, t := range n.tenants {
		if i == cardPods && len(n.tenants) > cardPods+1 {
			c.More = "and " + count(podsOf(n.tenants[i:]), "more pod")
			break
		}
		c.Pods = append(c.Pods, f.chip(t, seated[t.workload]))
	}
	return c
}

func viewCause(c explain.Cause) causeView {
	p := newPage(Options{Unicode: true})
	v := causeView{Who: p.owners(c), Asks: c.Asks}
	for _, x := range c.Reasons {
		v.Reasons = append(v.Reasons, reasonView{Spot: p.spot(x), Text: x.Text, Fixes: x.Fixes})
	}
	return v
}
