package workload

import (
	"cmp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Options change how objects are read. The zero value reads as EKS does.
type Options struct {
	// NoExtendedResourceToleration says that the cluster does not run the
	// admission plugin of that name, which tolerates the taint nvidia.com/gpu
	// for every pod that asks for nvidia.com/gpu.
	NoExtendedResourceToleration bool
}

// A Result is what the documents hold. Pods, Nodes and the rest are in the
// order in which they were read.
type Result struct {
	Pods        []model.Pod
	Nodes       []model.Node
	DaemonSets  []model.DaemonSet
	Quotas      []model.Quota
	LimitRanges []model.LimitRange
	Budgets     []model.Budget
	// Namespaces are those that were given or that hold a pod, with their labels.
	Namespaces map[string]map[string]string
}

// Read uses the documents of the kinds that it knows and leaves the others
// alone. Whatever is wrong, assumed or not modelled is in the notes, in the
// order in which it was met; no input makes Read fail.
func Read(docs []manifest.Document, o Options) (Result, []model.Note) {
	r := &reader{options: o, decoder: newDecoder(), cluster: newCluster(), once: map[string]int{}, more: map[int]int{}, minted: map[string]int{}}
	r.collect(docs)
	for _, o := range r.objects {
		if o.kind.index != nil {
			o.kind.index(r, o)
		}
	}
	r.settle()
	for _, o := range r.objects {
		if o.kind.emit != nil {
			o.kind.emit(r, o)
		}
	}
	r.finish()
	return r.out, r.notes
}

// A reader holds what is known while Read runs.
type reader struct {
	options Options
	decoder *decoder
	objects []*object
	cluster cluster
	out     Result
	notes   []model.Note
	once    map[string]int // note said once by its key, to an index into notes
	more    map[int]int    // how many more objects the note would have been said of
	minted  map[string]int // pods without a name, by what their name starts with
	last    lately
}

// An object is one document of a known kind.
type object struct {
	doc     manifest.Document
	kind    *kind
	meta    metav1.ObjectMeta
	value   any             // the decoded API object, of the pointer type that the kind's index sets
	refused []model.Verdict // why the API server does not even decode it
	work    *work           // of kinds that make pods
	pod     *running        // of a Pod
	last    *lately         // the reader's
}

// lately is the tree that was looked at last, of which only the head is held.
type lately struct {
	object *object
	tree   *manifest.Node
}

// tree is the whole document.
func (o *object) tree() *manifest.Node {
	if o.doc.Again == nil {
		return o.doc.Root
	}
	if o.last.object != o {
		*o.last = lately{o, o.doc.Tree()}
	}
	return o.last.tree
}

// namespace is where the object lives; what names none lives in default.
func (o *object) namespace() string {
	if o.kind.global {
		return ""
	}
	return cmp.Or(o.doc.Namespace, "default")
}

// makesPods reports whether pods come of the object.
func (o *object) makesPods() bool {
	return o.work != nil || o.pod != nil || o.kind.name == "ShapeTable"
}

// key tells objects of one kind apart.
func (o *object) key() string { return keyOf(o.kind.name, o.namespace(), o.doc.Name) }

func keyOf(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// line is the line of the deepest part of a field path that the document has:
// that of its key, where it has one.
func (o *object) line(path string) int {
	n, ok := o.tree().Find(path)
	if parent, found := o.tree().Find(parentOf(path)); ok && found {
		for _, f := range parent.Fields {
			if f.Value == n {
				return f.Line
			}
		}
	}
	return n.LineOf()
}

// parentOf takes the last element off a field path.
func parentOf(path string) string {
	end := strings.LastIndexByte(path, '.')
	if strings.HasSuffix(path, "]") {
		end = strings.LastIndexByte(path, '[')
	}
	return path[:max(0, end)]
}

func (o *object) place(path string) model.Place {
	return model.Place{File: o.doc.File, Line: o.line(path), Object: o.doc.Title(), Field: path}
}

// collect takes the documents that are of use. Of an object that is given twice
// the last one counts, as when kubectl applies the files in turn.
func (r *reader) collect(docs []manifest.Document) {
	byKey := map[string]int{}
	for _, d := range docs {
		k := kindOf(d)
		if k == nil || d.Root == nil {
			continue
		}
		o := &object{doc: d, kind: k, last: &r.last}
		r.version(o)
		if at, ok := byKey[o.key()]; ok && d.Name != "" {
			r.repeated(r.objects[at], o)
			r.objects[at] = o
			continue
		}
		byKey[o.key()] = len(r.objects)
		r.objects = append(r.objects, o)
	}
}

func (r *reader) repeated(first, second *object) {
	note := r.note(second, model.Warning, "repeated-object", "metadata.name",
		"the same object stands at "+first.place("").String()+" too; this one counts",
		"keep one of the two")
	if first.doc.File == second.doc.File {
		note.Also = []int{first.line("")}
	}
}

// version names an apiVersion that Kubernetes does not serve.
func (r *reader) version(o *object) {
	given := o.doc.APIVersion
	ok, dropped := o.kind.served(given)
	if ok {
		return
	}
	text := "no Kubernetes serves " + o.doc.Kind + " as " + strconv.Quote(given)
	if dropped != "" {
		text = "Kubernetes does not serve " + o.doc.Kind + " as " + given + " since " + dropped
	}
	fix := "write apiVersion: " + o.kind.serves
	if groupOf(o.kind.serves) == "apps" && o.tree().At("spec", "selector") == nil {
		fix += " and give spec.selector, which it demands"
	}
	r.note(o, model.Error, "api-version", "apiVersion", text+"; it is read as "+o.kind.serves, fix)
}

// note adds a note on a field of an object and returns it.
func (r *reader) note(o *object, s model.Severity, code, path, text, fix string) *model.Note {
	r.notes = append(r.notes, model.Note{Code: code, Severity: s, Place: o.place(path), Text: text, Fix: fix})
	return &r.notes[len(r.notes)-1]
}

// noteOnce adds a note unless one of the same key was added; then it only counts.
func (r *reader) noteOnce(key string, o *object, s model.Severity, code, path, text, fix string) {
	if at, ok := r.once[key]; ok {
		r.more[at]++
		return
	}
	r.once[key] = len(r.notes)
	r.note(o, s, code, path, text, fix)
}

// finish says in each note that was held back how often, and drops nothing.
func (r *reader) finish() {
	for at := range r.notes {
		if n := r.more[at]; n > 0 {
			r.notes[at].Text += "; so in " + counted(n, "more place")
		}
	}
	r.out.Namespaces = r.cluster.namespaces
}

// counted writes "1 pod" or "3 pods".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// decode reads an object into v, keeps it and its metadata, and names what does not fit.
func (r *reader) decode(o *object, v metav1.Object) {
	problems := r.decoder.decode(o.tree(), v)
	o.value = v
	o.meta = metaOf(v)
	for _, p := range problems {
		r.problem(o, p)
	}
}

// metaOf are the metadata that are kept of an object.
func metaOf(v metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: v.GetName(), GenerateName: v.GetGenerateName(), Namespace: v.GetNamespace(), Labels: v.GetLabels(), Annotations: v.GetAnnotations(),
		OwnerReferences: v.GetOwnerReferences(), UID: v.GetUID(), DeletionTimestamp: v.GetDeletionTimestamp(),
	}
}
