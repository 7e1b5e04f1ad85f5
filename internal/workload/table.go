package workload

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Columns of a ShapeTable that are not resources.
const (
	columnCount = "count"
	columnName  = "name"
	columnMilli = "gpu-milli"
	columnIn    = "in:" // followed by the key of a node label
)

// A shapeTable is the schema of kerf.dev/v1alpha1 ShapeTable; see the package comment.
type shapeTable struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Template          corev1.PodTemplateSpec `json:"template"`
	Columns           []string               `json:"columns"`
	Rows              unread                 `json:"rows"`
}

// unread is a field that is read from the document itself.
type unread struct{}

// UnmarshalJSON accepts everything.
func (*unread) UnmarshalJSON([]byte) error { return nil }

// A shape is one row: what it says beside the template.
type shape struct {
	count  int64
	name   string
	asks   corev1.ResourceList
	milli  int64 // of each device, 0 for whole ones
	in     []corev1.NodeSelectorRequirement
	broken []model.Verdict
}

// shapeTable adds the pods of a table, one shared spec a row.
func (r *reader) shapeTable(o *object) {
	var v shapeTable
	r.decode(o, &v)
	if !r.columns(o, v.Columns) {
		return
	}
	if len(v.Template.Spec.Containers) == 0 {
		v.Template.Spec.Containers = []corev1.Container{{Name: "shape", Image: "shape"}}
	}
	at := &template{object: o, at: "template"}
	r.census(o, at.base())
	r.deadLabels(at)
	rows := o.tree().Get("rows")
	if rows == nil || rows.Kind != manifest.List {
		r.note(o, model.Error, "shape-table", "rows", "rows are missing: a list with one list of cells for each shape belongs here", "write rows: [[…], …]")
		return
	}
	for i, row := range rows.Items {
		if s, ok := r.row(o, v.Columns, i, row); ok {
			r.shapePods(o, &v, i, s)
		}
	}
}

// columns checks the head of a table.
func (r *reader) columns(o *object, names []string) bool {
	ok := true
	complain := func(i int, text, fix string) {
		path := "columns"
		if i >= 0 {
			path += indexText(i)
		}
		r.note(o, model.Error, "shape-table", path, text, fix)
		ok = false
	}
	seen := map[string]bool{}
	for i, name := range names {
		switch {
		case seen[name]:
			complain(i, "column "+name+" stands twice", "remove one of them")
		case name == columnCount || name == columnName || name == columnMilli:
		case strings.HasPrefix(name, columnIn):
			if len(name) == len(columnIn) {
				complain(i, "the column names no label", "write in:<label key>, as in in:kubernetes.io/arch")
			}
		default:
			if errs := containerName(name, nil); len(errs) > 0 {
				fix := "write " + manifest.Nearest(name, append([]string{columnCount, columnName, columnMilli}, "cpu", "memory", "ephemeral-storage", model.NvidiaGPU))
				if fix == "write " {
					fix = "name a resource, or one of count, name, gpu-milli and in:<label key>"
				}
				complain(i, "column "+strconv.Quote(name)+" is no resource: "+errs[0].Detail, fix)
			}
		}
		seen[name] = true
	}
	if !seen[columnCount] {
		complain(-1, "there is no column count", "add a column count with the number of pods of each shape")
	}
	if seen[columnMilli] && !seen[model.NvidiaGPU] {
		complain(-1, "gpu-milli is a part of a device, and there is no column "+model.NvidiaGPU, "add the column "+model.NvidiaGPU)
	}
	return ok
}

// row reads the cells of one row; it is of no use when its count is not.
func (r *reader) row(o *object, columns []string, i int, row *manifest.Node) (shape, bool) {
	path := "rows" + indexText(i)
	s := shape{asks: corev1.ResourceList{}}
	if row == nil || row.Kind != manifest.List || len(row.Items) != len(columns) {
		found := 0
		if row != nil {
			found = len(row.Items)
		}
		r.note(o, model.Error, "shape-table", path, "the row has "+counted(found, "cell")+" for "+counted(len(columns), "column")+" and is left out", "give every column a cell; null asks for nothing")
		return s, false
	}
	for j, cell := range row.Items {
		if problem := s.cell(columns[j], cell); problem != "" {
			at := path + indexText(j)
			r.note(o, model.Error, "shape-table", at, "column "+columns[j]+" holds "+found(cell)+": "+problem, "")
			if columns[j] == columnCount {
				return s, false
			}
			s.broken = append(s.broken, model.Verdict{Code: model.CodeInvalid, Key: at, Detail: problem})
		}
	}
	if s.count < 0 {
		r.note(o, model.Error, "shape-table", path, "count is negative and the row is left out", "write a whole number")
	}
	return s, s.count > 0
}

// cell reads one cell; it returns what is wrong with it.
func (s *shape) cell(column string, cell *manifest.Node) string {
	empty := cell == nil || cell.Kind == manifest.Null || cell.Kind == manifest.String && strings.TrimSpace(cell.Text) == ""
	if column == columnCount {
		n, err := strconv.ParseInt(cell.Str(), 10, 32)
		if err != nil || empty {
			return "the number of pods belongs here"
		}
		s.count = n
		return ""
	}
	switch {
	case empty:
		return ""
	case cell.Kind == manifest.List || cell.Kind == manifest.Map:
		return "a single value belongs here"
	case column == columnName:
		s.name = cell.Text
	case column == columnMilli:
		n, err := strconv.ParseInt(cell.Text, 10, 32)
		if err != nil || n <= 0 || n > 1000 {
			return "thousandths of a device from 1 to 1000 belong here"
		}
		if n < 1000 {
			s.milli = n
		}
	case strings.HasPrefix(column, columnIn):
		s.in = append(s.in, corev1.NodeSelectorRequirement{
			Key: strings.TrimPrefix(column, columnIn), Operator: corev1.NodeSelectorOpIn, Values: strings.Split(cell.Text, "|"),
		})
	default:
		q, err := resource.ParseQuantity(cell.Text)
		if err != nil {
			return "a quantity such as 1, 500m or 16Gi belongs here"
		}
		if !q.IsZero() {
			s.asks[corev1.ResourceName(column)] = q
		}
	}
	return ""
}

// shapePods adds the pods of one row.
func (r *reader) shapePods(o *object, v *shapeTable, i int, s shape) {
	spec := v.Template.Spec.DeepCopy()
	c := &spec.Containers[0]
	c.Resources.Requests = filled(s.asks, c.Resources.Requests)
	for name, q := range s.asks {
		if isExtended(string(name)) {
			c.Resources.Limits = filled(corev1.ResourceList{name: q}, c.Resources.Limits)
		}
	}
	require(spec, s.in)
	title, name := o.doc.Title()+indexText(i), o.doc.Name+"-"+strconv.Itoa(i)
	if s.name != "" {
		title, name = o.doc.Title()+"/"+s.name, s.name
	}
	meta := v.Template.ObjectMeta
	meta.Name = name
	out := r.podSpec(&template{object: o, meta: meta, spec: spec, at: "template", row: "rows" + indexText(i)}, nil)
	out.Refused = append(out.Refused, s.broken...)
	if s.milli > 0 {
		share(out, s.milli)
	}
	count := min(s.count, max(0, mostPods-int64(len(r.out.Pods))))
	if count < s.count {
		r.note(o, model.Error, "too-many", "rows"+indexText(i), "more than "+strconv.Itoa(mostPods)+" pods in all: only the first are planned", "check the column count")
	}
	for n := range count {
		r.out.Pods = append(r.out.Pods, model.Pod{Namespace: o.namespace(), Name: name + "-" + strconv.FormatInt(n, 10), Owner: title, Spec: out})
	}
}

// require adds requirements to a pod's required node affinity: to every term,
// for the terms are alternatives.
func require(spec *corev1.PodSpec, in []corev1.NodeSelectorRequirement) {
	if len(in) == 0 {
		return
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range (*required).NodeSelectorTerms {
		t := &(*required).NodeSelectorTerms[i]
		t.MatchExpressions = append(t.MatchExpressions, in...)
	}
}

// share turns the whole devices that a shape asks for into parts of as many.
// No node advertises thousandths of a device, so the count is asked of the
// devices alone.
func share(spec *model.PodSpec, milli int64) {
	count := spec.Requests[model.NvidiaGPU]
	delete(spec.Requests, model.NvidiaGPU)
	for i := range spec.Containers {
		delete(spec.Containers[i].Requests, model.NvidiaGPU)
		delete(spec.Containers[i].Limits, model.NvidiaGPU)
	}
	if count > 0 {
		spec.Shares = append(spec.Shares, model.DeviceShare{Resource: model.NvidiaGPU, Count: count, PerDevice: model.Resources{model.ShareMilli: milli}})
	}
}
