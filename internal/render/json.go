package render

import (
	"math"

	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/model"
)

// Versions name the shapes of the JSON documents that Kerf writes beside plans.
// Fields may be added; none is renamed or removed.
const (
	ErrorVersion   = "kerf.dev/error/v1"
	NotesVersion   = "kerf.dev/notes/v1"
	TypesVersion   = "kerf.dev/instance-types/v1"
	InquiryVersion = "kerf.dev/explanation/v1"
	ChangesVersion = "kerf.dev/migration/v1"
)

// A NoteDoc is a note in JSON.
type NoteDoc struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Also     []int  `json:"also,omitempty"` // further lines in the same file
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	Text     string `json:"text"`
	Fix      string `json:"fix,omitempty"`
}

func noteDoc(n model.Note) NoteDoc {
	return NoteDoc{
		Severity: n.Severity.String(), Code: n.Code, File: n.Place.File, Line: n.Place.Line, Also: n.Also,
		Object: n.Place.Object, Field: n.Place.Field, Text: n.Text, Fix: n.Fix,
	}
}

// An ErrorDoc is what a command that cannot go on writes in JSON.
type ErrorDoc struct {
	Version string  `json:"version"`
	Error   NoteDoc `json:"error"`
}

// ErrorJSON puts an error into its document.
func ErrorJSON(n model.Note) ErrorDoc { return ErrorDoc{Version: ErrorVersion, Error: noteDoc(n)} }

// A NotesDoc is what kerf lint writes in JSON.
type NotesDoc struct {
	Version string         `json:"version"`
	Summary map[string]int `json:"summary"` // number of notes by severity
	Notes   []NoteDoc      `json:"notes"`
}

// NotesJSON puts notes into their document, in the order in which Notes writes them.
func NotesJSON(notes []model.Note) NotesDoc {
	d := NotesDoc{Version: NotesVersion, Summary: map[string]int{"error": 0, "warning": 0, "info": 0}, Notes: []NoteDoc{}}
	for _, n := range Sorted(notes) {
		d.Summary[n.Severity.String()]++
		d.Notes = append(d.Notes, noteDoc(n))
	}
	return d
}

// A TypesDoc is what kerf instance-types writes in JSON.
type TypesDoc struct {
	Version    string    `json:"version"`
	Region     string    `json:"region"`
	PriceBasis string    `json:"priceBasis"`
	Types      []TypeDoc `json:"types"`
}

// A TypeDoc is one instance type in JSON.
type TypeDoc struct {
	Name        string           `json:"name"`
	GPUs        []GPUDoc         `json:"gpus"`
	Capacity    map[string]int64 `json:"capacity"`    // cpu in thousandths of a core, memory in bytes
	Allocatable map[string]int64 `json:"allocatable"` // the same, for pods
	PerGPU      float64          `json:"pricePerGPU,omitempty"`
	Offerings   []OfferingDoc    `json:"offerings"`
}

// A GPUDoc is the GPUs of one kind in a type.
type GPUDoc struct {
	Manufacturer string  `json:"manufacturer"`
	Model        string  `json:"model"`
	Count        int64   `json:"count"`
	MemoryMiB    int64   `json:"memoryMiB"` // of each
	Fraction     float64 `json:"fraction"`  // of a whole GPU that each is
}

// An OfferingDoc is a place and way to buy a type.
type OfferingDoc struct {
	Zone         string  `json:"zone"`
	CapacityType string  `json:"capacityType"`
	Price        float64 `json:"price"` // $/h
	Estimated    bool    `json:"estimated,omitempty"`
}

// TypesJSON puts a listing into its document, in the order in which Types writes it.
func TypesJSON(l Listing) TypesDoc {
	types := append([]model.InstanceType{}, l.Types...)
	sortTypes(types)
	d := TypesDoc{Version: TypesVersion, Region: l.Region, PriceBasis: l.Basis, Types: []TypeDoc{}}
	for _, t := range types {
		doc := TypeDoc{Name: t.Name, GPUs: []GPUDoc{}, Capacity: t.Capacity, Allocatable: t.Allocatable, Offerings: []OfferingDoc{}}
		for _, g := range t.GPUs {
			doc.GPUs = append(doc.GPUs, GPUDoc{g.Manufacturer, g.Model, g.Count, g.MemoryMiB, g.Fraction})
		}
		for _, o := range t.Offerings {
			doc.Offerings = append(doc.Offerings, OfferingDoc(o))
		}
		if v := perGPU(t); len(t.GPUs) > 0 && !math.IsInf(v, 1) {
			doc.PerGPU = v
		}
		d.Types = append(d.Types, doc)
	}
	return d
}

// An InquiryDoc is what kerf plan --explain writes in JSON.
type InquiryDoc struct {
	Version     string           `json:"version"`
	Pod         string           `json:"pod"` // namespace/name of the first
	Owner       string           `json:"owner,omitempty"`
	Pods        int              `json:"pods"`
	Asks        map[string]int64 `json:"asks"`
	Tolerations []string         `json:"tolerations"`
	Nodes       []PlacedDoc      `json:"nodes"`   // where they go
	Instead     []InsteadDoc     `json:"instead"` // what else would hold the pods of the first node
	Unplaced    int              `json:"unplaced"`
	Trials      []TrialDoc       `json:"trials"` // every pool, with this pod alone
}

// A PlacedDoc is a node that pods go on or sit on.
type PlacedDoc struct {
	Node         string   `json:"node,omitempty"` // of nodes that exist
	Pool         string   `json:"pool,omitempty"`
	Type         string   `json:"type"`
	CapacityType string   `json:"capacityType,omitempty"`
	Zones        []string `json:"zones,omitempty"`
	Price        float64  `json:"price,omitempty"`
	Pods         int      `json:"pods"`
}

// An InsteadDoc is the next best plan for the pods of one node.
type InsteadDoc struct {
	Nodes string  `json:"nodes"`
	Price float64 `json:"price"`
}

// A TrialDoc is what came of the pod alone on one pool, or on the nodes that exist.
type TrialDoc struct {
	Pool         string      `json:"pool,omitempty"`
	Fits         bool        `json:"fits"`
	Node         string      `json:"node,omitempty"`
	Type         string      `json:"type,omitempty"`
	CapacityType string      `json:"capacityType,omitempty"`
	Price        float64     `json:"price,omitempty"`
	Passed       []string    `json:"passed,omitempty"` // checks before the one that says no
	Reasons      []ReasonDoc `json:"reasons,omitempty"`
}

// A ReasonDoc is why not.
type ReasonDoc struct {
	Code  model.Code `json:"code"`
	Node  string     `json:"node,omitempty"`
	Key   string     `json:"key,omitempty"`
	Text  string     `json:"text"`
	Fixes []string   `json:"fixes"`
}

// InquiryJSON puts an inquiry into its document.
func InquiryJSON(q Inquiry) InquiryDoc {
	pod := q.Snapshot.Pods[q.Pods[0]]
	d := InquiryDoc{
		Version: InquiryVersion, Pod: pod.Namespace + "/" + pod.Name, Owner: pod.Owner, Pods: len(q.Pods),
		Asks: map[string]int64{}, Tolerations: []string{}, Nodes: q.places(), Instead: []InsteadDoc{}, Trials: []TrialDoc{},
	}
	if pod.Spec != nil {
		d.Asks = pod.Spec.Requests
		for _, t := range pod.Spec.Tolerations {
			d.Tolerations = append(d.Tolerations, tolerationText(t))
		}
	}
	for _, x := range q.Instead {
		d.Instead = append(d.Instead, InsteadDoc(x))
	}
	mine := q.mine()
	for _, u := range q.Plan.Unplaced {
		d.Unplaced += among(u.Pods, mine)
	}
	for _, t := range q.Trials {
		d.Trials = append(d.Trials, trialDoc(t))
	}
	return d
}

func (q Inquiry) places() []PlacedDoc {
	out := []PlacedDoc{}
	mine := q.mine()
	for _, l := range q.Plan.Launches {
		n := among(l.Pods, mine)
		if n == 0 {
			continue
		}
		doc := PlacedDoc{Pool: l.Pool, Type: l.Type, CapacityType: l.CapacityType, Zones: l.Zones, Price: l.Price, Pods: n}
		out = append(out, doc)
	}
	for _, n := range q.Snapshot.Nodes {
		bound, soon := q.onNode(n.Name, mine)
		if bound+soon > 0 {
			out = append(out, PlacedDoc{Node: n.Name, Pool: n.Pool, Type: n.Type, CapacityType: n.CapacityType, Price: n.Price, Pods: bound + soon})
		}
	}
	return out
}

func trialDoc(t Trial) TrialDoc {
	d := TrialDoc{Pool: t.Pool, Node: t.Node, Fits: t.Launch != nil || t.Node != ""}
	if t.Launch != nil {
		d.Type, d.CapacityType, d.Price = t.Launch.Type, t.Launch.CapacityType, t.Launch.Price
	}
	for i, v := range t.Verdicts {
		if i == 0 && t.Pool != "" {
			d.Passed = before(v.Code)
		}
		s := explain.Verdict(v)
		d.Reasons = append(d.Reasons, ReasonDoc{Code: v.Code, Node: v.Node, Key: v.Key, Text: s.Text, Fixes: append([]string{}, s.Fixes...)})
	}
	return d
}
