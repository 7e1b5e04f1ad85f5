package nodepool

import (
	"fmt"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Groups, kinds and versions that this package reads.
const (
	coreGroup = "karpenter.sh"
	awsGroup  = "karpenter.k8s.aws"

	kindPool    = "NodePool"
	kindClaim   = "NodeClaim"
	kindOverlay = "NodeOverlay"
	kindClass   = "EC2NodeClass"
)

// An object is one document on its way to karpenter.sh/v1.
type object struct {
	doc     manifest.Document
	kind    string         // what it is in v1: NodePool, EC2NodeClass, NodeClaim, NodeOverlay
	root    *manifest.Node // its tree so far
	origin  map[*manifest.Node]origin
	changes []Change
	blocked []model.Note
	notes   []model.Note
	// classes lists the node classes of the input, to complete references.
	classes []classRef
	// kubelet is what an old pool says of the kubelet; in v1 the class says it.
	kubelet *manifest.Node
	// inline is the class that a Provisioner's provider stands for.
	inline *object
	unread []model.Verdict // why the object cannot be used
}

func newObject(d manifest.Document, kind string) *object {
	return &object{doc: d, kind: kind, root: d.Root, origin: origins(d.Root)}
}

// old reports whether the document is of a version that Karpenter 1.15 does not serve.
func (o *object) old() bool {
	return o.doc.APIVersion != o.version()
}

// place says where the value at a path of the tree was written. The path is the
// document's own wherever the value was carried over unchanged.
func (o *object) place(path string) model.Place {
	n, whole := o.root.Find(path)
	p := model.Place{File: o.doc.File, Line: n.LineOf(), Object: o.doc.Title(), Field: path}
	from, known := o.origin[n]
	if known && from.line > 0 {
		p.Line = from.line
	}
	if known && whole {
		p.Field = from.path
	}
	if p.Line == 0 {
		p.Line = o.doc.Root.LineOf()
	}
	return p
}

// note records one thing worth saying about the value at path.
func (o *object) note(severity model.Severity, code, path, fix, format string, args ...any) {
	o.notes = append(o.notes, model.Note{
		Code: code, Severity: severity, Place: o.place(path), Text: fmt.Sprintf(format, args...), Fix: fix,
	})
}

// noteNode is note for a node of the document, wherever the tree has it now.
func (o *object) noteNode(severity model.Severity, code string, n *manifest.Node, fix, format string, args ...any) {
	o.notes = append(o.notes, model.Note{
		Code: code, Severity: severity, Place: o.placeOf(n), Text: fmt.Sprintf(format, args...), Fix: fix,
	})
}

// placeOf says where a node of the document stood.
func (o *object) placeOf(n *manifest.Node) model.Place {
	from, known := o.origin[n]
	if !known {
		from.line = n.LineOf()
	}
	return model.Place{File: o.doc.File, Line: from.line, Object: o.doc.Title(), Field: from.path}
}

// change records what was rewritten on the way to v1.
func (o *object) change(path, before, after string) {
	o.changes = append(o.changes, Change{Place: o.place(path), Old: before, New: after})
}

// block records what cannot be carried over to v1 and what to do about it. Of
// these a plan repeats the warnings.
func (o *object) block(path, fix, format string, args ...any) {
	n := model.Note{Code: "not-convertible", Severity: model.Warning, Place: o.place(path), Text: fmt.Sprintf(format, args...), Fix: fix}
	o.blocked = append(o.blocked, n)
}

// blockQuietly is block for what changes nothing about a plan.
func (o *object) blockQuietly(path, fix, format string, args ...any) {
	o.block(path, fix, format, args...)
	o.blocked[len(o.blocked)-1].Severity = model.Info
}

// unusable records why the object cannot do anything at all.
func (o *object) unusable(key, detail string) {
	o.unread = append(o.unread, model.Verdict{Code: model.CodeUnusable, Pool: o.doc.Name, Key: key, Detail: detail})
}

// A classRef names a node class of the input.
type classRef struct{ group, kind, name string }
