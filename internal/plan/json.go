package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/internal/model"
)

// Version names the JSON contract that Encode writes. Fields may be added to
// it; none is renamed or removed.
const Version = "kerf.dev/plan/v1"

// hoursPerMonth is what clouds count a month as.
const hoursPerMonth = 730

// Words are a caller's sentence for a verdict, and the changes that would help.
type Words func(model.Verdict) (text string, fixes []string)

// Encode writes a plan as JSON, indented, with names in place of indexes and
// identical nodes folded into one with a count. Prices are in $/h unless their
// name says otherwise, amounts in the units of model.Resources. With words
// given, the first puts each verdict into a sentence beside its values.
func Encode(s model.Snapshot, p Plan, t model.Trace, notes []model.Note, words ...Words) ([]byte, error) {
	doc := document{
		Version: Version, PriceBasis: s.PriceBasis, Region: s.Region, Summary: summarize(s, p),
		Nodes: foldLaunches(s, p.Launches), Binds: []bindJSON{}, NotPlaced: []refusalJSON{}, Relaxed: []relaxedJSON{}, Notes: []noteJSON{},
	}
	for _, b := range p.Binds {
		doc.Binds = append(doc.Binds, bindJSON{Node: b.Node, Pods: podNames(s, b.Pods), OnDevice: onDevice(s, b.OnDevice)})
	}
	for _, r := range p.Unplaced {
		doc.NotPlaced = append(doc.NotPlaced, refusal(s, r, words))
	}
	for _, r := range t.Relaxed {
		doc.Relaxed = append(doc.Relaxed, relaxedJSON{Pods: podNames(s, r.Pods), What: r.What, Key: r.Key})
	}
	for _, n := range notes {
		doc.Notes = append(doc.Notes, noteJSON{
			Code: n.Code, Severity: n.Severity.String(), File: n.Place.File, Line: n.Place.Line, Also: n.Also,
			Object: n.Place.Object, Field: n.Place.Field, Text: n.Text, Fix: n.Fix,
		})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return append(out, '\n'), nil
}

type document struct {
	Version    string        `json:"version"`
	Region     string        `json:"region,omitempty"`
	PriceBasis string        `json:"priceBasis,omitempty"`
	Summary    summaryJSON   `json:"summary"`
	Nodes      []nodeJSON    `json:"nodes"`
	Binds      []bindJSON    `json:"binds"`
	NotPlaced  []refusalJSON `json:"notPlaced"`
	Relaxed    []relaxedJSON `json:"relaxed"`
	Notes      []noteJSON    `json:"notes"`
}

// summaryJSON counts the launches; gpus are physical, slices what they are
// advertised as, slicesUsed what pods ask of them.
type summaryJSON struct {
	Nodes        int     `json:"nodes"`
	GPUs         int     `json:"gpus"`
	Slices       int64   `json:"slices"`
	SlicesUsed   int64   `json:"slicesUsed"`
	CostPerHour  float64 `json:"costPerHour"`
	CostPerMonth float64 `json:"costPerMonth"`
	StandingCost float64 `json:"standingCostPerHour"`
	Estimated    bool    `json:"estimated"`
	Pods         int     `json:"pods"`
	Placed       int     `json:"placed"`
	NotPlaced    int     `json:"notPlaced"`
	// Bound is what is proven about cheaper plans; absent when nothing is.
	Bound *boundJSON `json:"bound,omitempty"`
}

// boundJSON: no plan that places the same pods costs less than PerHour, and the
// cost is at most GapPercent above the least possible one.
type boundJSON struct {
	PerHour    float64 `json:"perHour"`
	GapPercent float64 `json:"gapPercent"`
}

type nodeJSON struct {
	Count        int               `json:"count"`
	Pool         string            `json:"pool"`
	Type         string            `json:"type"`
	CapacityType string            `json:"capacityType"`
	Zones        []string          `json:"zones"`
	Price        float64           `json:"price"`
	Estimated    bool              `json:"estimated"`
	Alternatives []string          `json:"alternatives"`
	Labels       map[string]string `json:"labels,omitempty"`
	Config       string            `json:"config,omitempty"`
	Sharing      string            `json:"sharing,omitempty"`
	GPUs         []gpuJSON         `json:"gpus"`
	Allocatable  model.Resources   `json:"allocatable"`
	Overhead     model.Resources   `json:"overhead"`
	Used         model.Resources   `json:"used"`
	DaemonSets   []string          `json:"daemonSets,omitempty"`
	// Pods holds one list a node.
	Pods     [][]string       `json:"pods"`
	OnDevice map[string][]int `json:"onDevice,omitempty"`
}

type gpuJSON struct {
	Model     string          `json:"model"`
	Resources model.Resources `json:"resources"`
	Shares    model.Resources `json:"shares,omitempty"`
}

type bindJSON struct {
	Node     string           `json:"node"`
	Pods     []string         `json:"pods"`
	OnDevice map[string][]int `json:"onDevice,omitempty"`
}

type refusalJSON struct {
	Pods     []string      `json:"pods"`
	Owner    string        `json:"owner,omitempty"`
	Verdicts []verdictJSON `json:"verdicts"`
}

type verdictJSON struct {
	Code    string       `json:"code"`
	Pool    string       `json:"pool,omitempty"`
	Node    string       `json:"node,omitempty"`
	Key     string       `json:"key,omitempty"`
	Wanted  []string     `json:"wanted,omitempty"`
	Offered []string     `json:"offered,omitempty"`
	Asked   int64        `json:"asked,omitempty"`
	Have    int64        `json:"have,omitempty"`
	Used    int64        `json:"used,omitempty"`
	Config  string       `json:"config,omitempty"`
	Detail  string       `json:"detail,omitempty"`
	Text    string       `json:"text,omitempty"`
	Fixes   []string     `json:"fixes,omitempty"`
	Remedy  []remedyJSON `json:"remedy,omitempty"`
}

type remedyJSON struct {
	Kind   string   `json:"kind"`
	Key    string   `json:"key,omitempty"`
	Values []string `json:"values,omitempty"`
	Amount int64    `json:"amount,omitempty"`
}

type relaxedJSON struct {
	Pods []string `json:"pods"`
	What string   `json:"what"`
	Key  string   `json:"key,omitempty"`
}

type noteJSON struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Also     []int  `json:"also,omitempty"`
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

func summarize(s model.Snapshot, p Plan) summaryJSON {
	out := summaryJSON{Nodes: len(p.Launches), CostPerHour: cents(p.Cost), CostPerMonth: cents(p.Cost * hoursPerMonth), StandingCost: cents(p.Standing), Pods: len(s.Pods)}
	if gap, known := p.Gap(); known && p.Bound > 0 {
		out.Bound = &boundJSON{PerHour: cents(p.Bound), GapPercent: cents(100 * gap)}
	}
	for i := range p.Launches {
		l := &p.Launches[i]
		out.GPUs += len(l.Devices)
		out.Slices += gpusIn(l.Allocatable)
		out.SlicesUsed += gpusIn(l.Used)
		out.Estimated = out.Estimated || l.Estimated
		out.Placed += len(l.Pods)
	}
	for _, b := range p.Binds {
		out.Placed += len(b.Pods)
	}
	for _, r := range p.Unplaced {
		out.NotPlaced += len(r.Pods)
	}
	return out
}

// cents rounds away what adding floats leaves, to a millionth of a dollar.
func cents(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', 6, 64), 64)
	if err != nil {
		return v
	}
	return out
}

func gpusIn(r model.Resources) int64 {
	var n int64
	for name, v := range r {
		if model.IsGPU(name) {
			n += v
		}
	}
	return n
}

// foldLaunches joins launches that differ only in which pods are on them and
// keeps their order.
func foldLaunches(s model.Snapshot, launches []Launch) []nodeJSON {
	out := []nodeJSON{}
	at := map[string]int{}
	for i := range launches {
		l := &launches[i]
		key := fmt.Sprintf("%q %q %q %q %v %v %v", l.Pool, l.Type, l.CapacityType, l.Zones, l.Price, l.Labels, l.Used)
		j, ok := at[key]
		if !ok {
			j = len(out)
			at[key] = j
			out = append(out, nodeOf(l))
		}
		n := &out[j]
		n.Count++
		n.Pods = append(n.Pods, podNames(s, l.Pods))
		for pod, on := range l.OnDevice {
			if n.OnDevice == nil {
				n.OnDevice = map[string][]int{}
			}
			n.OnDevice[podName(s, pod)] = on
		}
	}
	return out
}

func nodeOf(l *Launch) nodeJSON {
	n := nodeJSON{
		Pool: l.Pool, Type: l.Type, CapacityType: l.CapacityType, Zones: l.Zones, Price: l.Price, Estimated: l.Estimated, Alternatives: l.Alternatives,
		Labels: l.Labels, Config: l.Config, Sharing: string(l.Sharing), GPUs: []gpuJSON{}, Allocatable: l.Allocatable, Overhead: l.Overhead, Used: l.Used,
		DaemonSets: l.DaemonSets,
	}
	for _, d := range l.Devices {
		n.GPUs = append(n.GPUs, gpuJSON(d))
	}
	return n
}

func refusal(s model.Snapshot, r model.Refusal, words []Words) refusalJSON {
	out := refusalJSON{Pods: podNames(s, r.Pods), Verdicts: []verdictJSON{}}
	if len(r.Pods) > 0 {
		out.Owner = s.Pods[r.Pods[0]].Owner
	}
	for _, v := range r.Verdicts {
		j := verdictJSON{
			Code: string(v.Code), Pool: v.Pool, Node: v.Node, Key: v.Key, Wanted: v.Wanted, Offered: v.Offered,
			Asked: v.Asked, Have: v.Have, Used: v.Used, Config: v.Config, Detail: v.Detail,
		}
		if len(words) > 0 && words[0] != nil {
			j.Text, j.Fixes = words[0](v)
		}
		for _, m := range v.Remedy {
			j.Remedy = append(j.Remedy, remedyJSON{Kind: string(m.Kind), Key: m.Key, Values: m.Values, Amount: m.Amount})
		}
		out.Verdicts = append(out.Verdicts, j)
	}
	return out
}

func podNames(s model.Snapshot, pods []int) []string {
	out := make([]string, 0, len(pods))
	for _, i := range pods {
		out = append(out, podName(s, i))
	}
	return out
}

func podName(s model.Snapshot, i int) string { return s.Pods[i].Namespace + "/" + s.Pods[i].Name }

func onDevice(s model.Snapshot, on map[int][]int) map[string][]int {
	if len(on) == 0 {
		return nil
	}
	out := map[string][]int{}
	for pod, at := range on {
		out[podName(s, pod)] = slices.Clone(at)
	}
	return out
}
