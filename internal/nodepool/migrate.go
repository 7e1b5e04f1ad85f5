package nodepool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Migration is a set of Karpenter objects written as karpenter.sh/v1.
type Migration struct {
	YAML    []byte       // the objects, in the order of the documents; comments are lost
	Changes []Change     // what was rewritten, in the order of the objects
	Blocked []model.Note // what could not be carried over, and what to do about it
	Notes   []model.Note // what else is worth saying: documents passed over, mistakes found
}

// A Change is one thing that the v1 object says differently.
type Change struct {
	Place model.Place // in the old document
	Old   string
	New   string
}

// ErrNothing is returned by Migrate when no document is a Karpenter object.
var ErrNothing = errors.New("no NodePool, Provisioner, EC2NodeClass, AWSNodeTemplate or NodeOverlay among the documents")

// Migrate writes the Karpenter objects among docs as v1. Objects that are v1
// already are written too, with their mistakes put right. NodeClaims and
// Machines are left to Karpenter, and every other document is passed over with a
// note. Terraform's interpolations stay as they are. It returns ErrNothing when
// there is nothing to write.
func Migrate(docs []manifest.Document) (Migration, error) {
	objects, notes := gather(docs)
	out := Migration{Notes: append(passed(docs), notes...)}
	var written []*object
	for _, o := range objects {
		if o.kind == kindClaim {
			continue
		}
		o.settle()
		if o.inline != nil {
			written = append(written, o.inline)
		}
		written = append(written, o)
	}
	if len(written) == 0 {
		return Migration{}, ErrNothing
	}
	written = homeKubelets(written)
	var b bytes.Buffer
	for i, o := range written {
		if i > 0 {
			b.WriteString("---\n")
		}
		if err := writeYAML(&b, tidy(o.root)); err != nil {
			return Migration{}, fmt.Errorf("write %s: %w", o.doc.Title(), err)
		}
		slices.SortStableFunc(o.changes, func(a, b Change) int { return cmp.Compare(a.Place.Line, b.Place.Line) })
		out.Changes = append(out.Changes, o.changes...)
		out.Blocked = append(append(out.Blocked, o.blocked...), o.stillWrong()...)
		out.Notes = append(out.Notes, o.notes...)
	}
	out.YAML = b.Bytes()
	return out, nil
}

// stillWrong lists the mistakes that are in what was written, too.
func (o *object) stillWrong() []model.Note {
	var out []model.Note
	for _, e := range o.remaining() {
		fix, _ := o.remedy(e)
		out = append(out, model.Note{
			Code: "not-convertible", Severity: model.Error, Place: o.place(e.path),
			Text: "the API server would refuse what is written: " + e.String(), Fix: fix,
		})
	}
	return out
}

// passed names the documents that are not Karpenter's, or not to be written by a person.
func passed(docs []manifest.Document) []model.Note {
	var out []model.Note
	for _, d := range docs {
		kind, known := recognise(d)
		_, said := passedOver(d, known)
		text := ""
		switch {
		case kind == kindClaim:
			text = d.Kind + " is left out: Karpenter makes its own"
		case !known && !said:
			text = fmt.Sprintf("%s is not a Karpenter object and is left out", d.Title())
		default:
			continue
		}
		out = append(out, model.Note{
			Code: "passed-over", Severity: model.Info,
			Place: model.Place{File: d.File, Line: d.Root.LineOf(), Object: d.Title()}, Text: text,
		})
	}
	return out
}

// homeKubelets writes what old pools say of the kubelet on their node classes.
// Pools of one class that say different things get a class each.
func homeKubelets(objects []*object) []*object {
	var out, homed []*object
	for _, o := range objects {
		if o.kind != kindClass {
			out = append(out, o)
			continue
		}
		pools := poolsOf(o, objects)
		homed = append(homed, pools...)
		out = append(out, o.withKubelets(pools)...)
	}
	for _, o := range objects {
		if o.kind == kindPool && o.kubelet != nil && !slices.Contains(homed, o) {
			o.blocked = append(o.blocked, model.Note{
				Code: "not-convertible", Severity: model.Warning, Place: o.placeOf(o.kubelet),
				Text: fmt.Sprintf("the kubelet settings of the pool belong on its node class %s, which is not among the files", className(at(o.root, "spec.template.spec.nodeClassRef"))),
				Fix:  "write them at spec.kubelet of that node class",
			})
		}
	}
	return out
}

func owns(class, pool *object) bool {
	return class.kind == kindClass && pool.kind == kindPool &&
		className(at(pool.root, "spec.template.spec.nodeClassRef")) == kindClass+"/"+class.doc.Name
}

func poolsOf(class *object, objects []*object) []*object {
	var out []*object
	for _, p := range objects {
		if owns(class, p) {
			out = append(out, p)
		}
	}
	return out
}

// withKubelets returns the class with the kubelet of its pools, and a copy of it
// for every pool that says something else than the first.
func (o *object) withKubelets(pools []*object) []*object {
	base := o.root
	out := []*object{o}
	var said []string
	names := []string{o.doc.Name}
	for _, p := range pools {
		text := string(p.kubelet.JSON())
		if i := slices.Index(said, text); i >= 0 {
			p.renameClass(names[i], o.doc.Name)
			continue
		}
		said = append(said, text)
		root := base
		if p.kubelet != nil {
			root = set(base, "spec.kubelet", drop(p.kubelet, "containerRuntime"))
			p.kubeletMoved(o.doc.Name)
		}
		if len(said) == 1 {
			o.root = root
			continue
		}
		name := o.doc.Name + "-" + p.doc.Name
		names = append(names, name)
		out = append(out, o.copyAs(name, root))
		p.renameClass(name, o.doc.Name)
	}
	return out
}

// kubeletMoved lists the change, and what the kubelet of v1 no longer has.
func (o *object) kubeletMoved(class string) {
	p := o.placeOf(o.kubelet)
	o.changes = append(o.changes, Change{Place: p, Old: p.Field, New: "spec.kubelet of EC2NodeClass " + class})
	if rt := o.kubelet.Get("containerRuntime"); rt != nil {
		o.blocked = append(o.blocked, model.Note{
			Code: "not-convertible", Severity: model.Info, Place: o.placeOf(rt),
			Text: fmt.Sprintf("containerRuntime %s is left out: every node runs containerd", rt.Str()),
		})
	}
}

func (o *object) renameClass(name, was string) {
	const path = "spec.template.spec.nodeClassRef.name"
	if name == was {
		return
	}
	o.change(path, "EC2NodeClass "+was, "EC2NodeClass "+name+", which has the kubelet settings of this pool")
	o.root = set(o.root, path, text(at(o.root, path).LineOf(), name))
}

func (o *object) copyAs(name string, root *manifest.Node) *object {
	doc := o.doc
	doc.Name = name
	return &object{doc: doc, kind: o.kind, origin: o.origin, root: set(root, "metadata.name", text(root.LineOf(), name))}
}

// serverFields are what a cluster adds to metadata.
var serverFields = []string{"creationTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"}

// tidy leaves out what the cluster wrote, and puts the fields in the usual order.
func tidy(root *manifest.Node) *manifest.Node {
	meta := root.Get("metadata")
	for _, name := range serverFields {
		meta = drop(meta, name)
	}
	if a := meta.Get("annotations"); isMap(a) {
		slim := *a
		slim.Fields = slices.DeleteFunc(slices.Clone(a.Fields), func(f manifest.Field) bool {
			return slices.Contains([]string{
				"kubectl.kubernetes.io/last-applied-configuration", "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version",
				"karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version", "karpenter.sh/provisioner-hash", "karpenter.k8s.aws/nodetemplate-hash",
				"compatibility.karpenter.sh/v1beta1-kubelet-conversion", "compatibility.karpenter.sh/v1beta1-nodeclass-reference", "karpenter.sh/stored-version-migrated",
			}, f.Name)
		})
		meta = set(meta, "annotations", &slim)
		if len(slim.Fields) == 0 {
			meta = drop(meta, "annotations")
		}
	}
	if meta != nil {
		root = set(root, "metadata", meta)
	}
	root = ordered(root, "apiVersion", "kind", "metadata", "spec")
	spec := root.Get("spec")
	if !isMap(spec) {
		return root
	}
	spec = ordered(spec, "template", "disruption", "limits", "weight", "replicas", // NodePool
		"amiFamily", "amiSelectorTerms", "role", "instanceProfile", "subnetSelectorTerms", "securityGroupSelectorTerms") // EC2NodeClass
	if t := spec.Get("template"); isMap(t) {
		t = ordered(t, "metadata", "spec")
		if inner := t.Get("spec"); isMap(inner) {
			t = set(t, "spec", ordered(inner, "nodeClassRef", "requirements", "taints", "startupTaints", "expireAfter", "terminationGracePeriod"))
		}
		spec = set(spec, "template", t)
	}
	return set(root, "spec", spec)
}
