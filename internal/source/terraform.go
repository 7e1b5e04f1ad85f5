package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A module is the Terraform files of one folder: their locals and variables are
// one name space.
type module struct {
	dir    string
	files  map[string]File // every file given, by clean path: what file() can find
	blocks map[string][]block
	notes  map[string][]model.Note // what could not be parsed, by file
	values map[string]definition   // "local.name" and "var.name"
	budget int                     // values that references may still add
}

// A block is one Terraform block, from HCL or from JSON.
type block struct {
	kind   string   // "resource", "locals", "variable" ...
	labels []string // type and name of a resource
	line   int
	body   body
}

// A body gives the attributes and blocks inside a block.
type body interface {
	names() []string                                // attributes, in the order of the file
	value(e *evaluator, name string) *manifest.Node // nil when absent
	inner(name string) []block                      // blocks of one type
}

// A definition is a local, or a variable's default.
type definition struct {
	file string
	name string
	body body
}

// terraformModules groups the Terraform files by folder. The result runs
// parallel to files and is nil for every other file.
func terraformModules(files []File) []*module {
	out := make([]*module, len(files))
	byDir := map[string]*module{}
	all := map[string]File{}
	for _, f := range files {
		all[filepath.Clean(f.Name)] = f
	}
	for i, f := range files {
		if !isTerraform(f.Name) {
			continue
		}
		dir := filepath.Dir(f.Name)
		m := byDir[dir]
		if m == nil {
			m = &module{dir: dir, files: all, blocks: map[string][]block{}, notes: map[string][]model.Note{}, values: map[string]definition{}, budget: maxAliased}
			byDir[dir] = m
		}
		m.load(f)
		out[i] = m
	}
	return out
}

func isTerraform(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
}

// load parses one file and collects what it defines.
func (m *module) load(f File) {
	if len(f.Data) > maxTerraform {
		m.notes[f.Name] = []model.Note{tooLarge(f, "8 MiB")}
		return
	}
	if strings.HasSuffix(strings.ToLower(f.Name), ".json") {
		m.blocks[f.Name], m.notes[f.Name] = jsonBlocks(f)
	} else {
		m.blocks[f.Name], m.notes[f.Name] = hclBlocks(f)
	}
	for _, b := range m.blocks[f.Name] {
		switch {
		case b.kind == "locals":
			for _, name := range b.body.names() {
				m.values["local."+name] = definition{f.Name, name, b.body}
			}
		case b.kind == "variable" && len(b.labels) == 1:
			m.values["var."+b.labels[0]] = definition{f.Name, "default", b.body}
		}
	}
}

// hclBlocks parses a .tf file. After a syntax error what could be read is kept.
func hclBlocks(f File) ([]block, []model.Note) {
	if line := tooDeep(f.Data, hclsyntax.LexConfig); line > 0 {
		return nil, []model.Note{{
			Code: "nesting", Severity: model.Error, Place: model.Place{File: f.Name, Line: line},
			Text: "an expression here is nested more than 500 deep or has more than 5,000 operators, so the file was not read",
		}}
	}
	file, diags := hclsyntax.ParseConfig(f.Data, f.Name, hcl.InitialPos)
	var notes []model.Note
	if diags.HasErrors() {
		notes = append(notes, syntaxNote(f.Name, diags))
	}
	if file == nil {
		return nil, notes
	}
	parsed, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil, notes
	}
	return nativeBody{f.Name, f.Data, parsed}.inner(""), notes
}

func syntaxNote(file string, diags hcl.Diagnostics) model.Note {
	note := model.Note{Code: "syntax", Severity: model.Error, Place: model.Place{File: file}}
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		note.Text = "this is not valid Terraform: " + strings.ToLower(d.Summary) + "; what follows may be missing"
		if d.Subject != nil {
			note.Place.Line = d.Subject.Start.Line
		}
		return note
	}
	return note
}

// A nativeBody is a body in HCL's native syntax.
type nativeBody struct {
	file string
	src  []byte
	body *hclsyntax.Body
}

func (b nativeBody) names() []string {
	var attrs []*hclsyntax.Attribute
	for _, a := range b.body.Attributes {
		attrs = append(attrs, a)
	}
	slices.SortFunc(attrs, func(a, c *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - c.SrcRange.Start.Byte })
	var out []string
	for _, a := range attrs {
		out = append(out, a.Name)
	}
	return out
}

func (b nativeBody) value(e *evaluator, name string) *manifest.Node {
	a := b.body.Attributes[name]
	if a == nil {
		return nil
	}
	return e.within(b.file, b.src, 0).eval(a.Expr)
}

// inner lists the blocks of one type, or all for "".
func (b nativeBody) inner(kind string) []block {
	var out []block
	for _, x := range b.body.Blocks {
		if kind == "" || x.Type == kind {
			out = append(out, block{x.Type, x.Labels, x.TypeRange.Start.Line, nativeBody{b.file, b.src, x.Body}})
		}
	}
	return out
}

// resources reads the manifests and releases of one file. Files that file()
// took in are added to used.
func (m *module) resources(name string, used map[string]bool) parsed {
	p := parsed{notes: m.notes[name]}
	e := &evaluator{module: m, used: used, shared: newShared()}
	for _, b := range m.blocks[name] {
		if b.kind == "resource" && len(b.labels) == 2 {
			e.resource(&p, name, b)
		}
	}
	p.notes = append(p.notes, e.shared.notes(name)...)
	slices.SortStableFunc(p.notes, func(a, b model.Note) int { return a.Place.Line - b.Place.Line })
	return p
}

// resource reads one resource block; types that hold no manifest are passed over.
func (e *evaluator) resource(p *parsed, file string, b block) {
	via := b.labels[0] + "." + b.labels[1]
	var read func(*parsed, string, string, block)
	switch kind := b.labels[0]; {
	case kind == "kubectl_manifest":
		read = e.kubectlManifest
	case kind == "kubernetes_manifest":
		read = e.kubernetesManifest
	case kind == "helm_release":
		read = e.helmRelease
	case strings.HasPrefix(kind, "kubernetes_"):
		p.notes = append(p.notes, typedResource(file, via, b.line))
		return
	default:
		return
	}
	if e.repeated(p, file, via, b) {
		read(p, file, via, b)
	}
}

// typedResource names an object that is written in Terraform's own terms.
func typedResource(file, via string, line int) model.Note {
	return model.Note{
		Code: "terraform-resource", Severity: model.Info, Place: model.Place{File: file, Line: line, Object: via},
		Text: via + " is written in the Terraform provider's own fields, which are not read",
		Fix:  "give the object itself as well: kubectl get -o yaml",
	}
}

// repeated speaks of count and for_each, and reports whether the resource is
// there at all.
func (e *evaluator) repeated(p *parsed, file, via string, b block) bool {
	for _, name := range []string{"count", "for_each"} {
		v := b.body.value(e.quiet(), name)
		if v == nil || v.Kind == manifest.Number && v.Text == "1" {
			continue
		}
		note := model.Note{
			Code: "terraform-repeat", Severity: model.Info, Place: model.Place{File: file, Line: v.Line, Object: via},
			Text: via + " has " + name + "; it is read once, as written",
		}
		none := v.Kind == manifest.Number && v.Text == "0"
		if none {
			note.Text = via + " has count 0, so it was not read"
		}
		p.notes = append(p.notes, note)
		return !none
	}
	return true
}

func (e *evaluator) kubectlManifest(p *parsed, file, via string, b block) {
	if e.elsewhere(b.body, "yaml_body") {
		return
	}
	v := b.body.value(e, "yaml_body")
	if v == nil {
		p.notes = append(p.notes, missing(file, via, b.line, "yaml_body"))
		return
	}
	roots, notes := e.trees(v)
	e.addAll(p, file, via, v.Line, roots, notes)
}

// elsewhere reports whether an attribute is just file("x") of a file that was
// given: its documents are then read from there, with their own lines.
func (e *evaluator) elsewhere(b body, name string) bool {
	native, ok := b.(nativeBody)
	if !ok || native.body.Attributes[name] == nil {
		return false
	}
	call, ok := native.body.Attributes[name].Expr.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "file" || len(call.Args) != 1 {
		return false
	}
	_, found := e.quiet().within(native.file, native.src, 0).find(call.Args[0])
	return found
}

func (e *evaluator) kubernetesManifest(p *parsed, file, via string, b block) {
	v := b.body.value(e, "manifest")
	if v == nil {
		p.notes = append(p.notes, missing(file, via, b.line, "manifest"))
		return
	}
	e.addAll(p, file, via, v.Line, []*manifest.Node{v}, nil)
}

// addAll adds documents, or says that a block's content is not known.
func (e *evaluator) addAll(p *parsed, file, via string, line int, roots []*manifest.Node, notes []model.Note) {
	for _, n := range notes {
		n.Place.File, n.Place.Object = file, via
		p.notes = append(p.notes, n)
	}
	for _, root := range roots {
		if root.Kind == manifest.String && symbolic(root.Text) {
			e.shared.told(root.Text)
			p.notes = append(p.notes, model.Note{
				Code: "unknown-value", Severity: model.Warning, Place: model.Place{File: file, Line: line, Object: via},
				Text: "the manifest of " + via + " is " + e.shared.restore(root.Text) + ", which is not known from the files given, so it was not read",
				Fix:  "give the file that it comes from as well",
			})
			continue
		}
		p.add(file, via, e.shared.restored(root))
	}
}

func missing(file, via string, line int, attr string) model.Note {
	return model.Note{
		Code: "missing-field", Severity: model.Error, Place: model.Place{File: file, Line: line, Object: via, Field: attr},
		Text: fmt.Sprintf("%s has no %s, so there is nothing to read", via, attr),
	}
}
