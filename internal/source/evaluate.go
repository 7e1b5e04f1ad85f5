package source

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// maxText bounds a string that interpolation builds, in bytes.
const maxText = 1 << 20

// An evaluator turns Terraform expressions into values as far as the files
// given tell them. What they do not tell stays as the text "${...}".
type evaluator struct {
	module *module
	used   map[string]bool // files that file() read, by clean path
	shared *shared

	file  string // of the expressions in hand
	src   []byte
	line  int // not 0: every value stands on this line
	scope map[string]*manifest.Node
	depth int
}

// within returns an evaluator for expressions of another text.
func (e *evaluator) within(file string, src []byte, line int) *evaluator {
	in := *e
	in.file, in.src, in.scope = file, src, nil
	if line > 0 {
		in.line = line
	}
	return &in
}

// quiet returns an evaluator that remembers no unknown value.
func (e *evaluator) quiet() *evaluator {
	out := *e
	out.shared = newShared()
	return &out
}

// at is the line to report for a place in the text in hand.
func (e *evaluator) at(r hcl.Range) int {
	if e.line > 0 {
		return e.line
	}
	return r.Start.Line
}

// eval never returns nil.
func (e *evaluator) eval(expr hclsyntax.Expression) *manifest.Node {
	if e.depth > maxDepth {
		return e.unknown(expr)
	}
	e.depth++
	defer func() { e.depth-- }()
	switch x := expr.(type) {
	case *hclsyntax.TemplateExpr:
		return e.template(x)
	case *hclsyntax.TemplateWrapExpr:
		return e.eval(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return e.eval(x.Expression)
	case *hclsyntax.ObjectConsExpr:
		return e.object(x)
	case *hclsyntax.TupleConsExpr:
		out := &manifest.Node{Kind: manifest.List, Line: e.at(x.SrcRange)}
		for _, item := range x.Exprs {
			out.Items = append(out.Items, e.eval(item))
		}
		return out
	case *hclsyntax.ScopeTraversalExpr:
		return e.reference(x)
	case *hclsyntax.ConditionalExpr:
		return e.choice(x)
	case *hclsyntax.FunctionCallExpr:
		if v := e.call(x); v != nil {
			return v
		}
	}
	return e.compute(expr)
}

func (e *evaluator) object(x *hclsyntax.ObjectConsExpr) *manifest.Node {
	out := &manifest.Node{Kind: manifest.Map, Line: e.at(x.SrcRange)}
	for _, item := range x.Items {
		out.Fields = append(out.Fields, manifest.Field{
			Name: e.key(item.KeyExpr), Line: e.at(item.KeyExpr.Range()), Value: e.eval(item.ValueExpr),
		})
	}
	return out
}

// choice evaluates the branch that the condition takes.
func (e *evaluator) choice(x *hclsyntax.ConditionalExpr) *manifest.Node {
	switch e.eval(x.Condition).Text {
	case "true":
		return e.eval(x.TrueResult)
	case "false":
		return e.eval(x.FalseResult)
	}
	return e.unknown(x)
}

// key evaluates an object's key, which may be a bare word.
func (e *evaluator) key(expr hclsyntax.Expression) string {
	if word := hcl.ExprAsKeyword(expr); word != "" {
		return word
	}
	if k, ok := expr.(*hclsyntax.ObjectConsKeyExpr); ok {
		expr = k.Wrapped
	}
	return e.eval(expr).Str()
}

// template joins the parts of a quoted or heredoc text and remembers the line
// in the file of each line of the result.
func (e *evaluator) template(x *hclsyntax.TemplateExpr) *manifest.Node {
	var b strings.Builder
	lines := []int{e.at(x.SrcRange)}
	fresh := true // nothing on the last line yet
	for _, part := range x.Parts {
		text, r := e.part(part), part.Range()
		if b.Len()+len(text) > maxText {
			return e.unknown(x)
		}
		for i, piece := range strings.SplitAfter(text, "\n") {
			if piece == "" {
				continue
			}
			line := e.at(r)
			if e.line == 0 {
				line = min(line+i, r.End.Line)
			}
			if fresh {
				lines[len(lines)-1] = line
			}
			fresh = strings.HasSuffix(piece, "\n")
			if fresh {
				lines = append(lines, line)
			}
			b.WriteString(piece)
		}
	}
	out := &manifest.Node{Kind: manifest.String, Line: e.at(x.SrcRange), Text: b.String()}
	e.shared.lines[out] = lines
	if len(lines) > 1 && lines[0] > 0 && consecutive(lines[:len(lines)-1]) {
		out.TextLine = lines[0]
	}
	return out
}

func consecutive(lines []int) bool {
	for i := range lines {
		if lines[i] != lines[0]+i {
			return false
		}
	}
	return true
}

// part is the text of one part of a template.
func (e *evaluator) part(part hclsyntax.Expression) string {
	if lit, ok := part.(*hclsyntax.LiteralValueExpr); ok && lit.Val.Type() == cty.String && !lit.Val.IsNull() {
		return lit.Val.AsString()
	}
	v := e.eval(part)
	switch v.Kind {
	case manifest.String, manifest.Bool, manifest.Number:
		return v.Text
	}
	return e.unknown(part).Text
}

// reference follows local.x, var.x, path.module and template variables.
func (e *evaluator) reference(x *hclsyntax.ScopeTraversalExpr) *manifest.Node {
	v, rest := e.root(x.Traversal)
	if v == nil {
		return e.unknown(x)
	}
	for _, step := range rest {
		switch s := step.(type) {
		case hcl.TraverseAttr:
			v = v.Get(s.Name)
		case hcl.TraverseIndex:
			v = index(v, s.Key)
		default:
			v = nil
		}
		if v == nil {
			return e.unknown(x)
		}
	}
	size := weigh(v, e.module.budget+1)
	if e.module.budget -= size; e.module.budget < 0 {
		e.module.budget = 0
		return e.unknown(x)
	}
	return v
}

// root resolves the head of a traversal to a value and what is left of it.
func (e *evaluator) root(t hcl.Traversal) (*manifest.Node, hcl.Traversal) {
	if v := e.scope[t.RootName()]; v != nil {
		return v, t[1:]
	}
	if len(t) < 2 {
		return nil, nil
	}
	attr, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		return nil, nil
	}
	name := t.RootName() + "." + attr.Name
	if name == "path.module" || name == "path.root" || name == "path.cwd" {
		return &manifest.Node{Kind: manifest.String, Line: e.at(t.SourceRange()), Text: filepath.ToSlash(e.module.dir)}, t[2:]
	}
	return e.defined(name, e.at(t.SourceRange())), t[2:]
}

// defined evaluates a local or a variable's default. Values from another file
// get the line of the reference, as a place names one file only.
func (e *evaluator) defined(name string, line int) *manifest.Node {
	def, ok := e.module.values[name]
	if !ok {
		return nil
	}
	key := name
	if e.line > 0 || def.file != e.file {
		key += "\x00" + e.file
	}
	if v, seen := e.shared.values[key]; seen {
		return v
	}
	e.shared.values[key] = nil // a definition that needs itself is unknown
	in := *e
	in.scope = nil
	if key != name {
		in.line = line
	}
	v := def.body.value(&in, def.name)
	e.shared.values[key] = v
	return v
}

func index(v *manifest.Node, key cty.Value) *manifest.Node {
	switch key.Type() {
	case cty.String:
		return v.Get(key.AsString())
	case cty.Number:
		i, _ := key.AsBigFloat().Int64()
		if v.Kind == manifest.List && i >= 0 && i < int64(len(v.Items)) {
			return v.Items[i]
		}
	}
	return nil
}

// weigh counts the values of a tree, up to limit.
func weigh(n *manifest.Node, limit int) int {
	if n == nil || limit <= 0 {
		return 0
	}
	size := 1
	for _, f := range n.Fields {
		size += weigh(f.Value, limit-size)
	}
	for _, item := range n.Items {
		size += weigh(item, limit-size)
	}
	return size
}

// compute evaluates an operation with HCL's own rules; values that are not
// known make the result unknown.
func (e *evaluator) compute(expr hclsyntax.Expression) *manifest.Node {
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: functions}
	roots := map[string]map[string]cty.Value{}
	for _, t := range expr.Variables() {
		e.bind(ctx.Variables, roots, t)
	}
	for root, attrs := range roots {
		ctx.Variables[root] = cty.ObjectVal(attrs)
	}
	v, diags := expr.Value(ctx)
	if diags.HasErrors() {
		return e.unknown(expr)
	}
	n := fromCty(v, e.at(expr.Range()))
	if n == nil || weigh(n, maxAliased) >= maxAliased {
		return e.unknown(expr)
	}
	return n
}

// bind makes the variable that t names known to HCL.
func (e *evaluator) bind(vars map[string]cty.Value, roots map[string]map[string]cty.Value, t hcl.Traversal) {
	root := t.RootName()
	if v := e.scope[root]; v != nil {
		vars[root] = toCty(v)
		return
	}
	attr, ok := hcl.TraverseAttr{}, false
	if len(t) > 1 {
		attr, ok = t[1].(hcl.TraverseAttr)
	}
	if !ok || root != "local" && root != "var" && root != "path" {
		vars[root] = cty.DynamicVal
		return
	}
	if roots[root] == nil {
		roots[root] = map[string]cty.Value{}
	}
	v, _ := e.root(t[:2])
	size := weigh(v, e.module.budget+1)
	if e.module.budget -= size; v == nil || e.module.budget < 0 {
		e.module.budget = max(e.module.budget, 0)
		roots[root][attr.Name] = cty.DynamicVal
		return
	}
	roots[root][attr.Name] = toCty(v)
}

// unknown gives the expression's text as its value.
func (e *evaluator) unknown(expr hclsyntax.Expression) *manifest.Node {
	r := expr.Range()
	text := ""
	if r.CanSliceBytes(e.src) {
		text = strings.TrimSpace(string(r.SliceBytes(e.src)))
	}
	if len(text) > 200 || strings.Contains(text, "\n") {
		text, _, _ = strings.Cut(text[:min(len(text), 200)], "\n")
		text += " ..."
	}
	if !strings.HasPrefix(text, "${") && !strings.HasPrefix(text, "%{") {
		text = "${" + text + "}"
	}
	line := e.at(r)
	return &manifest.Node{Kind: manifest.String, Line: line, Text: e.shared.symbol(text, line)}
}

// trees parses a string value as YAML, on the lines of the file.
func (e *evaluator) trees(v *manifest.Node) ([]*manifest.Node, []model.Note) {
	if encoded := e.shared.encoded[v]; encoded != nil {
		return []*manifest.Node{encoded}, nil
	}
	if v.Kind != manifest.String {
		return []*manifest.Node{v}, nil
	}
	if symbolic(v.Text) && onlySymbol(v.Text) {
		return []*manifest.Node{v}, nil
	}
	lines := e.shared.lines[v]
	return parseYAML(v.Text, func(line int) int {
		switch {
		case len(lines) == 0:
			return v.Line
		case line < 1:
			return lines[0]
		}
		return lines[min(line, len(lines))-1]
	}, nil)
}
