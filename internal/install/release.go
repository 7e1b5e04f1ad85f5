package install

import (
	"cmp"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Charts that are read.
const (
	pluginChart   = "nvidia-device-plugin"
	operatorChart = "gpu-operator"
)

// A release is one installation by a chart, with the values that count.
type release struct {
	doc       manifest.Document
	name      string
	version   string // of the chart, "" when unknown
	namespace string // where it is installed, "" when unknown
	operator  bool   // the GPU operator, not the plugin's own chart
	kerf      bool   // Kerf's chart, which installs kerf-node
	values    *manifest.Node
	path      string         // field path of values in the document
	files     *manifest.Node // value files that an Application names
}

// archive is a chart given as a file or address, with its version in the name.
var archive = regexp.MustCompile(`^(.*)-v?(\d+\.\d+\.\d+[^/]*)\.tgz$`)

// chart takes a chart's name and version out of how it was given: a bare name,
// "repo/name", an oci:// address, or an archive.
func chart(given, version string) (string, string) {
	name := path.Base(strings.TrimRight(given, "/"))
	if m := archive.FindStringSubmatch(name); m != nil {
		return m[1], cmp.Or(version, m[2])
	}
	return name, version
}

// isOperator tells the GPU operator's values from those of the plugin's chart.
func isOperator(values *manifest.Node) bool {
	return values.At("devicePlugin", "config") != nil || has(values, "driver", "toolkit", "operator", "migManager", "dcgmExporter")
}

// takes reports whether a chart is read, and remembers those that are not.
func (r *reader) takes(d manifest.Document, name string, at *manifest.Node) bool {
	if name == pluginChart || name == operatorChart || name == kerfChart {
		return true
	}
	if name == "" || name == "." {
		name = "an unnamed chart"
	}
	r.foreign = append(r.foreign, model.Note{
		Code: "not-modelled", Severity: model.Info,
		Place: model.Place{File: d.File, Line: cmp.Or(at.LineOf(), d.Root.LineOf()), Object: title(d)},
		Text:  "what this installs (" + name + ") is not rendered, so its pods are not in the plan",
		Fix:   "add its manifests: helm template, or kubectl get -o yaml",
	})
	return false
}

// terraform reads a helm_release.
func (r *reader) terraform(d manifest.Document) {
	name, version := chart(d.Root.Get("chart").Str(), known(d.Root.Get("version").Str()))
	if !r.takes(d, name, d.Root.Get("chart")) {
		return
	}
	values := d.Root.Get("values")
	for _, s := range items(d.Root.Get("set")) {
		values = r.assign(d, values, s, s.Get("type").Str() == "string")
	}
	r.releases = append(r.releases, release{
		doc: d, name: d.Name, version: version, operator: name == operatorChart, kerf: name == kerfChart,
		namespace: cmp.Or(known(d.Namespace), "default"), values: values, path: "values",
	})
}

// known drops a text that holds a Terraform expression.
func known(text string) string {
	if strings.Contains(text, "${") {
		return ""
	}
	return text
}

// flux reads a Flux HelmRelease.
func (r *reader) flux(d manifest.Document) {
	spec := d.Root.At("spec", "chart", "spec")
	name, version := chart(spec.Get("chart").Str(), spec.Get("version").Str())
	if !r.takes(d, name, spec.Get("chart")) {
		return
	}
	if from := d.Root.At("spec", "valuesFrom"); len(items(from)) > 0 {
		r.note(model.Warning, "values-unread", d, from, "spec.valuesFrom", "values from other objects are not read; spec.values alone counts", "write them under spec.values")
	}
	r.releases = append(r.releases, release{
		doc: d, name: d.Name, version: version, namespace: cmp.Or(d.Root.At("spec", "targetNamespace").Str(), d.Namespace),
		operator: name == operatorChart, kerf: name == kerfChart, values: d.Root.At("spec", "values"), path: "spec.values",
	})
}

// application reads every source of an Argo CD Application that is a chart of
// ours; at is the path of its spec.
func (r *reader) application(d manifest.Document, spec *manifest.Node, at string) {
	sources := items(spec.Get("sources"))
	paths := at + ".sources"
	if len(sources) == 0 {
		sources, paths = []*manifest.Node{spec.Get("source")}, at+".source"
	}
	for _, s := range sources {
		if s == nil || s.Get("chart") == nil && s.Get("path") == nil {
			continue // a source that only lends its files to others
		}
		given := cmp.Or(s.Get("chart").Str(), s.Get("path").Str())
		name, version := chart(given, "")
		if s.Get("chart") != nil {
			version = cmp.Or(version, s.Get("targetRevision").Str())
		}
		if !r.takes(d, name, s) {
			continue
		}
		values, from := r.helm(d, s.Get("helm"), paths+".helm")
		r.releases = append(r.releases, release{
			doc: d, name: cmp.Or(s.At("helm", "releaseName").Str(), d.Name), version: version, values: values, path: from,
			namespace: spec.At("destination", "namespace").Str(), operator: name == operatorChart, kerf: name == kerfChart, files: s.At("helm", "valueFiles"),
		})
	}
}

// joined gives the releases with the value files that Applications name taken
// from among the files given, which are then no installations of their own.
func (r *reader) joined() []release {
	taken := map[int]bool{}
	out := make([]release, 0, len(r.releases))
	for _, rel := range r.releases {
		for _, f := range items(rel.files) {
			i := r.valueFile(f.Str())
			if i < 0 {
				r.note(model.Warning, "values-unread", rel.doc, f, "helm.valueFiles", "the value file "+f.Str()+" is not among the files; the chart's defaults count in its place", "give it too")
				continue
			}
			taken[i] = true
			// Places are those of the file, which holds more than the Application.
			file := r.releases[i]
			rel.values, rel.doc, rel.path = overlay(file.values, rel.values), file.doc, ""
		}
		out = append(out, rel)
	}
	kept := out[:0]
	for i, rel := range out {
		if !taken[i] {
			kept = append(kept, rel)
		}
	}
	return kept
}

// valueFile finds the values file at a path as an Application writes it,
// "$ref/dir/values.yaml"; -1 when it was not given.
func (r *reader) valueFile(name string) int {
	if rest, ok := strings.CutPrefix(name, "$"); ok {
		_, name, _ = strings.Cut(rest, "/")
	}
	name = "/" + strings.TrimLeft(path.Clean("/"+name), "/")
	return slices.IndexFunc(r.releases, func(rel release) bool {
		return rel.doc.Kind == manifest.KindHelmValues && strings.HasSuffix("/"+filepath.ToSlash(rel.doc.File), name)
	})
}

// helm gives the values of an Application's source as Argo CD passes them to
// Helm: valuesObject wins over values, and parameters over both.
func (r *reader) helm(d manifest.Document, h *manifest.Node, at string) (*manifest.Node, string) {
	values, from := h.Get("valuesObject"), at+".valuesObject"
	if values == nil || values.Kind == manifest.Null {
		values, from = nil, at+".values"
		if text := h.Get("values"); text != nil {
			values = r.nested(d, text, from)
			r.repeated(d, values, from)
		}
	} else {
		values = r.dropNulls(d, values, from)
	}
	for _, p := range items(h.Get("parameters")) {
		values = r.assign(d, values, p, isTrue(p.Get("forceString")))
	}
	return values, from
}

// repeated notes the keys that stand twice in a text of values.
func (r *reader) repeated(d manifest.Document, values *manifest.Node, at string) {
	for _, dup := range values.Duplicates() {
		r.notes = append(r.notes, model.Note{
			Code: "duplicate-key", Severity: model.Warning, Also: []int{dup.Second},
			Place: model.Place{File: d.File, Line: dup.First, Object: title(d), Field: at + "." + dup.Path},
			Text:  dup.Path + " is given twice; the last one counts, as Helm takes it",
			Fix:   "remove the one that is not meant",
		})
	}
}

// dropNulls removes the nulls of a valuesObject: the Application's schema loses
// them before Helm sees them (argoproj/argo-cd issues 16312 and 19781), so they
// do not unset the chart's defaults.
func (r *reader) dropNulls(d manifest.Document, n *manifest.Node, at string) *manifest.Node {
	if n == nil || n.Kind != manifest.Map {
		return n
	}
	out := *n
	out.Fields = nil
	for _, f := range n.Fields {
		path := manifest.Join(at, f.Name)
		if f.Value == nil || f.Value.Kind == manifest.Null {
			r.note(model.Warning, "argocd-null", d, &manifest.Node{Line: f.Line}, path,
				f.Name+": null does not reach Helm, as Argo CD loses nulls in valuesObject; the chart's default stays in force",
				"give the values as text under helm.values: |, where a null is kept")
			continue
		}
		f.Value = r.dropNulls(d, f.Value, path)
		out.Fields = append(out.Fields, f)
	}
	return &out
}

// items are a list's items; anything else has none.
func items(n *manifest.Node) []*manifest.Node {
	if n == nil || n.Kind != manifest.List {
		return nil
	}
	return n.Items
}
