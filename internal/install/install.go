// Package install reads how the NVIDIA device plugin is installed and which
// device configs its nodes may select: from the values of its Helm chart (a
// file, a Terraform helm_release, an Argo CD Application, a Flux HelmRelease),
// from the GPU operator's values, from DaemonSets and ConfigMaps, and from bare
// config files.
//
// Rules are those of chart and plugin v0.20.0 unless a message says otherwise.
// What the chart or the plugin would refuse becomes a note, and reading goes on
// with what is evidently meant: one bad config never costs the others.
package install

import (
	"slices"
	"strconv"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A Parser reads the YAML inside a string value, with the lines of the file the
// string stands in. Its notes lack the file. Nil without a note means that the
// text is empty.
type Parser func(text *manifest.Node) (*manifest.Node, []model.Note)

// A Result is what the documents say about the device plugin.
type Result struct {
	Plugins []model.Plugin // in the order of the documents
	Sharing model.Sharing
}

// Kinds lists the kinds that Read looks at, as "group/Kind".
func Kinds() []string {
	return []string{
		"/ConfigMap", "/" + manifest.KindDeviceConfig, "/" + manifest.KindHelmRelease, "/" + manifest.KindHelmValues,
		"/" + manifest.KindMIGConfigs, "apps/DaemonSet", "argoproj.io/Application", "argoproj.io/ApplicationSet", "helm.toolkit.fluxcd.io/HelmRelease",
		"nvidia.com/ClusterPolicy",
	}
}

// Read uses the documents of the kinds that it knows and leaves the others
// alone. No input makes it fail.
func Read(docs []manifest.Document, parse Parser) (Result, []model.Note) {
	r := &reader{parse: parse, maps: map[string]manifest.Document{}}
	for _, d := range docs {
		if d.Root != nil {
			r.document(d)
		}
	}
	for _, rel := range r.joined() {
		r.release(rel)
	}
	r.configMaps()
	r.settle()
	r.others()
	return Result{Plugins: r.plugins, Sharing: r.sharing()}, r.notes
}

// A reader holds what is known while Read runs.
type reader struct {
	parse    Parser
	notes    []model.Note
	releases []release
	plugins  []model.Plugin

	maps     map[string]manifest.Document // ConfigMaps by "namespace/name"
	mapOrder []string
	named    []reference // ConfigMaps that a plugin names, and where
	configs  []config
	mig      []layouts
	defaults []choice // config.default of each installation that gives one

	nfd, gfd bool         // feature discovery runs as a DaemonSet of its own
	foreign  []model.Note // charts that are installed and not read
}

// document sorts one document by its kind.
func (r *reader) document(d manifest.Document) {
	switch d.Group() + "/" + d.Kind {
	case "/ConfigMap":
		key := d.Namespace + "/" + d.Name
		if _, again := r.maps[key]; !again {
			r.mapOrder = append(r.mapOrder, key)
		}
		r.maps[key] = d
	case "/" + manifest.KindDeviceConfig:
		r.configs = append(r.configs, r.config(d, d.Name, "", d.Root, loose))
	case "/" + manifest.KindMIGConfigs:
		r.layouts(d, "", d.Root)
	case "/" + manifest.KindHelmValues:
		r.releases = append(r.releases, release{doc: d, name: d.Name, operator: isOperator(d.Root), kerf: isKerf(d.Root), values: d.Root})
	case "/" + manifest.KindHelmRelease:
		r.terraform(d)
	case "argoproj.io/Application":
		r.application(d, d.Root.Get("spec"), "spec")
	case "argoproj.io/ApplicationSet":
		r.application(d, d.Root.At("spec", "template", "spec"), "spec.template.spec")
	case "helm.toolkit.fluxcd.io/HelmRelease":
		r.flux(d)
	case "nvidia.com/ClusterPolicy":
		r.releases = append(r.releases, release{doc: d, name: d.Name, operator: true, values: d.Root.Get("spec"), path: "spec"})
	case "apps/DaemonSet":
		r.daemonSet(d)
	}
}

// note adds a note on a node of a document; path names its field.
func (r *reader) note(s model.Severity, code string, d manifest.Document, n *manifest.Node, path, text, fix string) {
	line := n.LineOf()
	if line == 0 {
		line = d.Root.LineOf()
	}
	r.notes = append(r.notes, model.Note{
		Code: code, Severity: s, Text: text, Fix: fix,
		Place: model.Place{File: d.File, Line: line, Object: title(d), Field: path},
	})
}

// title names a document in messages: Terraform blocks by their address, files
// without a name of their own not at all.
func title(d manifest.Document) string {
	if d.Via != "" {
		return d.Via
	}
	if d.APIVersion == "" {
		return ""
	}
	return d.Title()
}

// others names, once, the charts that were met and that nobody renders.
func (r *reader) others() {
	if len(r.foreign) == 0 {
		return
	}
	first := r.foreign[0]
	if more := len(r.foreign) - 1; more > 0 {
		first.Text += "; so of " + strconv.Itoa(more) + " more"
	}
	r.notes = append(r.notes, first)
}

// nested parses a text value; what is wrong with it is noted.
func (r *reader) nested(d manifest.Document, n *manifest.Node, path string) *manifest.Node {
	root, notes := r.parse(n)
	for _, note := range notes {
		note.Place.File, note.Place.Object, note.Place.Field = d.File, title(d), path
		r.notes = append(r.notes, note)
	}
	return root
}

// has reports whether n is a map with one of the fields.
func has(n *manifest.Node, names ...string) bool {
	return n != nil && slices.ContainsFunc(names, func(name string) bool { return n.Get(name) != nil })
}

// isTrue reports whether n is the boolean true, as Helm's templates see it: a
// text that is not empty counts.
func isTrue(n *manifest.Node) bool {
	return n != nil && (n.Kind == manifest.Bool && n.Text == "true" || n.Kind == manifest.String && n.Text != "")
}
