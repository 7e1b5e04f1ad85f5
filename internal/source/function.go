package source

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/kerfdev/kerf/api/manifest"
)

// functions are Terraform's functions that need nothing but their arguments and
// give no more than they were given.
var functions = map[string]function.Function{
	"coalesce": stdlib.CoalesceFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "join": stdlib.JoinFunc,
	"keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc,
	"merge": stdlib.MergeFunc, "replace": stdlib.ReplaceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc,
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
	"tostring": stdlib.MakeToFunc(cty.String), "tonumber": stdlib.MakeToFunc(cty.Number), "tobool": stdlib.MakeToFunc(cty.Bool),
	"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
}

// call evaluates the functions that keep the lines of their arguments or read
// files; nil leaves the call to HCL.
func (e *evaluator) call(x *hclsyntax.FunctionCallExpr) *manifest.Node {
	if x.ExpandFinal || len(x.Args) == 0 {
		return nil
	}
	switch x.Name {
	case "yamlencode", "jsonencode":
		arg := e.eval(x.Args[0])
		out := &manifest.Node{Kind: manifest.String, Line: e.at(x.Range()), Text: string(arg.JSON())}
		e.shared.encoded[out] = arg
		return out
	case "yamldecode", "jsondecode":
		roots, _ := e.trees(e.eval(x.Args[0]))
		if len(roots) != 1 || symbolic(roots[0].Text) {
			return e.unknown(x)
		}
		return roots[0]
	case "merge":
		return e.merged(x)
	case "file":
		if text, ok := e.readFile(x.Args[0]); ok {
			return &manifest.Node{Kind: manifest.String, Line: e.at(x.Range()), Text: text}
		}
		return e.unknown(x)
	case "templatefile":
		return e.templateFile(x)
	}
	return nil
}

// merged joins objects, the last one winning, and keeps the lines.
func (e *evaluator) merged(x *hclsyntax.FunctionCallExpr) *manifest.Node {
	out := &manifest.Node{Kind: manifest.Map, Line: e.at(x.Range())}
	for _, arg := range x.Args {
		v := e.eval(arg)
		if v.Kind == manifest.Null {
			continue
		}
		if v.Kind != manifest.Map {
			return e.unknown(x)
		}
		for _, f := range v.Fields {
			out.Fields = set(out.Fields, f)
		}
	}
	return out
}

// set replaces the field of f's name, or appends f.
func set(fields []manifest.Field, f manifest.Field) []manifest.Field {
	for i := range fields {
		if fields[i].Name == f.Name {
			fields[i] = f
			return fields
		}
	}
	return append(fields, f)
}

// readFile takes in a file among those given.
func (e *evaluator) readFile(arg hclsyntax.Expression) (string, bool) {
	path, ok := e.find(arg)
	if !ok {
		return "", false
	}
	e.used[path] = true
	return string(e.module.files[path].Data), true
}

// find looks for the file that arg names among those given.
func (e *evaluator) find(arg hclsyntax.Expression) (string, bool) {
	name := e.eval(arg).Str()
	if name == "" || symbolic(name) {
		return "", false
	}
	for _, path := range []string{filepath.Clean(name), filepath.Join(e.module.dir, name)} {
		if f, ok := e.module.files[path]; ok && len(f.Data) <= maxText {
			return path, true
		}
	}
	return "", false
}

// templateFile renders a template that is among the files given.
func (e *evaluator) templateFile(x *hclsyntax.FunctionCallExpr) *manifest.Node {
	text, ok := e.readFile(x.Args[0])
	if !ok || len(x.Args) != 2 || tooDeep([]byte(text), hclsyntax.LexTemplate) > 0 {
		return e.unknown(x)
	}
	vars := e.eval(x.Args[1])
	expr, diags := hclsyntax.ParseTemplate([]byte(text), e.file, hcl.InitialPos)
	if diags.HasErrors() || vars.Kind != manifest.Map {
		return e.unknown(x)
	}
	in := e.within(e.file, []byte(text), e.at(x.Range()))
	in.scope = map[string]*manifest.Node{}
	for _, f := range vars.Fields {
		in.scope[f.Name] = f.Value
	}
	return in.eval(expr)
}

// toCty gives HCL a value; one with an unknown part is unknown as a whole.
func toCty(n *manifest.Node) cty.Value {
	switch n.Kind {
	case manifest.Bool:
		return cty.BoolVal(n.Text == "true")
	case manifest.Number:
		if v, err := cty.ParseNumberVal(n.Text); err == nil {
			return v
		}
		return cty.DynamicVal
	case manifest.String:
		if symbolic(n.Text) {
			return cty.DynamicVal
		}
		return cty.StringVal(n.Text)
	case manifest.List:
		items := make([]cty.Value, 0, len(n.Items))
		for _, item := range n.Items {
			items = append(items, toCty(item))
		}
		return cty.TupleVal(items)
	case manifest.Map:
		fields := map[string]cty.Value{}
		for _, f := range n.Fields {
			if symbolic(f.Name) {
				return cty.DynamicVal
			}
			fields[f.Name] = toCty(f.Value)
		}
		return cty.ObjectVal(fields)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// fromCty takes a value from HCL, every part of it on one line; nil when a part
// is unknown.
func fromCty(v cty.Value, line int) *manifest.Node {
	v, _ = v.UnmarkDeep()
	if !v.IsWhollyKnown() {
		return nil
	}
	n := &manifest.Node{Line: line}
	switch t := v.Type(); {
	case v.IsNull():
	case t == cty.String:
		n.Kind, n.Text = manifest.String, v.AsString()
	case t == cty.Bool:
		n.Kind, n.Text = manifest.Bool, "false"
		if v.True() {
			n.Text = "true"
		}
	case t == cty.Number:
		return fromNumber(v, line)
	case t.IsTupleType() || t.IsListType() || t.IsSetType():
		n.Kind = manifest.List
		for it := v.ElementIterator(); it.Next(); {
			_, item := it.Element()
			n.Items = append(n.Items, fromCty(item, line))
		}
	case t.IsObjectType() || t.IsMapType():
		n.Kind = manifest.Map
		for it := v.ElementIterator(); it.Next(); {
			key, item := it.Element()
			n.Fields = append(n.Fields, manifest.Field{Name: key.AsString(), Line: line, Value: fromCty(item, line)})
		}
	default:
		return nil
	}
	return n
}

func fromNumber(v cty.Value, line int) *manifest.Node {
	s, err := convert.Convert(v, cty.String)
	if err != nil || strings.Contains(s.AsString(), "Inf") {
		return nil
	}
	text, ok := number(s.AsString())
	if !ok {
		return nil
	}
	return &manifest.Node{Kind: manifest.Number, Line: line, Text: text}
}
