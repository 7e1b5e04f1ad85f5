package nodepool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Result is what the Karpenter objects of an input say.
type Result struct {
	Pools []model.Pool // in the order of the documents; names are unique
	// Claims holds the NodeClaims as nodes in flight, in the order of the
	// documents. Whoever knows the nodes that exist leaves out those that have
	// arrived; Origins says how to tell.
	Claims  []model.Node
	Origins []Origin // of Claims, index by index
	// Overlays holds the NodeOverlays in the order in which they win: higher
	// weight first, then the later name (Karpenter 1.15).
	Overlays []Overlay
	// Classes holds the AWS node classes by Pool.NodeClass.
	Classes map[string]Class
}

// An Origin ties a NodeClaim to the node that it became.
type Origin struct {
	Claim      string // the NodeClaim's name
	NodeName   string // status.nodeName, "" while not registered
	ProviderID string // status.providerID, "" while not launched
	Class      string // as Pool.NodeClass
	// Coming says that the claim reports its conditions and that its node does not
	// have everything yet that it is expected to have.
	Coming bool
	// Since is, while Coming, when the node registered, or when it was found to
	// lack something; zero when the claim does not say.
	Since time.Time
	// Initialized is when the node had all that; zero when it has not, or when the
	// claim reports no conditions.
	Initialized time.Time
	// Requirements are the claim's, by which the cloud chooses while it launches.
	Requirements []model.Requirement
	// StartupTaints are those that the node loses before it is initialized.
	StartupTaints []model.Taint
	// Pods are those that the claim was made for, as "namespace/name", where
	// kerf-controller made it.
	Pods []string
}

// AnnotationPods is the annotation by which kerf-controller notes on a NodeClaim
// which pods it was made for: "namespace/name" with commas between them.
const AnnotationPods = "kerf.dev/pods"

// AnnotationCPUOnGPU set to "true" on a NodePool, or on its template, lets pods
// that ask for no GPU use its GPU nodes like any other.
const AnnotationCPUOnGPU = "kerf.dev/cpu-pods-on-gpu-nodes"

// Kinds lists what Read uses, as "group/Kind".
func Kinds() []string {
	out := make([]string, 0, len(kinds)+len(otherClasses))
	for _, k := range kinds {
		if name := k.group + "/" + k.kind; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, c := range otherClasses {
		out = append(out, c.group+"/"+c.kind)
	}
	slices.Sort(out)
	return out
}

// kinds lists every kind and version with what it is in v1.
var kinds = []struct{ group, version, kind, now string }{
	{coreGroup, "v1", "NodePool", kindPool},
	{coreGroup, "v1beta1", "NodePool", kindPool},
	{coreGroup, "v1alpha5", "Provisioner", kindPool},
	{coreGroup, "v1", "NodeClaim", kindClaim},
	{coreGroup, "v1beta1", "NodeClaim", kindClaim},
	{coreGroup, "v1alpha5", "Machine", kindClaim},
	{coreGroup, "v1alpha1", "NodeOverlay", kindOverlay},
	{awsGroup, "v1", "EC2NodeClass", kindClass},
	{awsGroup, "v1beta1", "EC2NodeClass", kindClass},
	{awsGroup, "v1alpha1", "AWSNodeTemplate", kindClass},
}

// otherClasses lists the node classes of other clouds, of which only the name is read.
var otherClasses = []classRef{
	{group: "karpenter.azure.com", kind: "AKSNodeClass"},
	{group: "karpenter.k8s.gcp", kind: "GCENodeClass"},
	{group: "karpenter.k8s.alibabacloud", kind: "ECSNodeClass"},
}

// Read uses the Karpenter objects among docs and passes over everything else.
// Objects with mistakes are read by their evident meaning, with a note for each
// mistake; a pool without one is kept with the reasons in Unusable. Nothing is
// written to docs.
func Read(docs []manifest.Document) (Result, []model.Note) {
	objects, notes := gather(docs)
	var out Result
	out.Classes = map[string]Class{}
	for _, o := range objects {
		o.settle()
		if o.kind == kindClass {
			out.Classes[kindClass+"/"+o.doc.Name] = o.class()
		}
		if o.inline != nil {
			out.Classes[kindClass+"/"+o.inline.doc.Name] = o.inline.class()
		}
	}
	for _, o := range objects {
		switch o.kind {
		case kindPool:
			out.Pools = append(out.Pools, o.pool(out.Classes))
		case kindClaim:
			node, origin := o.claim()
			out.Claims = append(out.Claims, node)
			out.Origins = append(out.Origins, origin)
		case kindOverlay:
			if overlay, ok := o.overlay(); ok {
				out.Overlays = append(out.Overlays, overlay)
			}
		}
		notes = append(notes, o.finish()...)
	}
	notes = append(notes, sortOverlays(out.Overlays)...)
	return out, notes
}

// finish returns all that is to be said of an object, in the order of its lines.
func (o *object) finish() []model.Note {
	var out []model.Note
	for _, part := range []*object{o, o.inline} {
		if part == nil {
			continue
		}
		out = append(out, part.notes...)
		for _, n := range part.blocked {
			if n.Severity > model.Info {
				out = append(out, n)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b model.Note) int { return cmp.Compare(a.Place.Line, b.Place.Line) })
	if o.old() {
		out = slices.Insert(out, 0, o.versionNote())
	}
	return out
}

func (o *object) versionNote() model.Note {
	return model.Note{
		Code: "old-version", Severity: model.Warning, Place: o.place("apiVersion"),
		Text: fmt.Sprintf("karpenter 1.15 does not serve %s %s; it is read as %s", o.doc.APIVersion, o.doc.Kind, o.version()+" "+o.kind),
		Fix:  o.migrate(),
	}
}

// migrate is the command that brings the object up to date. Objects without
// lines come from a cluster.
func (o *object) migrate() string {
	if o.doc.Root.LineOf() == 0 {
		return "kubectl get " + strings.ToLower(o.doc.Kind) + "s." + o.doc.Group() + " -o yaml | kerf migrate -f -"
	}
	return "kerf migrate -f " + o.doc.File
}

// gather picks the documents that this package knows, and upgrades each.
func gather(docs []manifest.Document) ([]*object, []model.Note) {
	classes := classRefs(docs)
	var out []*object
	var notes []model.Note
	for _, d := range docs {
		kind, known := recognise(d)
		if note, ok := passedOver(d, known); ok {
			notes = append(notes, note)
		}
		if !known {
			continue
		}
		o := newObject(d, kind)
		o.classes = classes
		o.upgrade()
		out = append(out, o)
	}
	return unique(out, &notes), notes
}

// recognise says what a document is in v1.
func recognise(d manifest.Document) (string, bool) {
	for _, k := range kinds {
		if d.Kind == k.kind && d.APIVersion == k.group+"/"+k.version && isMap(d.Root) {
			return k.now, true
		}
	}
	return "", false
}

// passedOver says what is read of a document that is Karpenter's and yet unknown.
func passedOver(d manifest.Document, known bool) (model.Note, bool) {
	p := model.Place{File: d.File, Line: d.Root.LineOf(), Object: d.Title(), Field: "apiVersion"}
	if n := d.Root.Get("apiVersion"); n != nil {
		p.Line = n.Line
	}
	for _, c := range otherClasses {
		if d.Kind == c.kind && d.Group() == c.group {
			return model.Note{
				Code: "not-modelled", Severity: model.Info, Place: p,
				Text: fmt.Sprintf("of a %s only the name is read; its fields are not modelled", d.Kind),
			}, true
		}
	}
	ours := slices.ContainsFunc(kinds, func(k struct{ group, version, kind, now string }) bool {
		return d.Kind == k.kind && d.Group() == k.group
	})
	if known || !ours {
		return model.Note{}, false
	}
	return model.Note{
		Code: "unknown-version", Severity: model.Error, Place: p,
		Text: fmt.Sprintf("no version %q of %s is known, so it is left out", d.APIVersion, d.Kind),
		Fix:  "write " + newestVersion(d.Kind),
	}, true
}

func newestVersion(kind string) string {
	for _, k := range kinds {
		if k.kind == kind {
			return "apiVersion: " + k.group + "/" + k.version
		}
	}
	return ""
}

// classRefs lists the node classes of the input, in order.
func classRefs(docs []manifest.Document) []classRef {
	var out []classRef
	for _, d := range docs {
		if kind, ok := recognise(d); ok && kind == kindClass {
			out = append(out, classRef{awsGroup, kindClass, d.Name})
		}
		for _, c := range otherClasses {
			if d.Kind == c.kind && d.Group() == c.group {
				out = append(out, classRef{c.group, c.kind, d.Name})
			}
		}
	}
	return out
}

// unique leaves one object of each kind and name: of two of one version the
// later, as kubectl apply would, and otherwise the newer.
func unique(objects []*object, notes *[]model.Note) []*object {
	var out []*object
	for _, o := range objects {
		i := slices.IndexFunc(out, func(p *object) bool { return p.kind == o.kind && p.doc.Name == o.doc.Name })
		if i < 0 {
			out = append(out, o)
			continue
		}
		kept, lost := o, out[i]
		if o.old() && !out[i].old() {
			kept, lost = out[i], o
		}
		out[i] = kept
		*notes = append(*notes, lost.duplicateOf(kept))
	}
	return out
}

func (o *object) duplicateOf(kept *object) model.Note {
	at := kept.place("metadata.name")
	n := model.Note{
		Code: "duplicate-name", Severity: model.Error, Place: o.place("metadata.name"),
		Text: fmt.Sprintf("the name %q is taken twice among %ss; the one at %s is used", o.doc.Name, o.kind, at),
		Fix:  "remove one of the two, or rename it",
	}
	if at.File == o.doc.File {
		n.Also = []int{at.Line}
	}
	return n
}
