package source

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// labelled says how many names stand above the body of a block in JSON.
var labelled = map[string]int{"resource": 2, "variable": 1, "locals": 0}

// jsonBlocks parses a .tf.json file.
func jsonBlocks(f File) ([]block, []model.Note) {
	roots, notes := parseJSON(f.Data, nil)
	for i := range notes {
		notes[i].Place.File = f.Name
	}
	var out []block
	for _, root := range roots {
		for _, field := range root.Fields {
			if depth, ok := labelled[field.Name]; ok {
				out = append(out, jsonBlocksBelow(f.Name, field.Name, nil, depth, field.Value)...)
			}
		}
	}
	return out, notes
}

// jsonBlocksBelow descends through depth labels; at each level a list stands
// for several blocks.
func jsonBlocksBelow(file, kind string, labels []string, depth int, n *manifest.Node) []block {
	var out []block
	switch {
	case n.Kind == manifest.List:
		for _, item := range n.Items {
			if item.Kind == manifest.Map {
				out = append(out, jsonBlocksBelow(file, kind, labels, depth, item)...)
			}
		}
	case n.Kind == manifest.Map && depth == 0:
		out = append(out, block{kind, labels, n.Line, jsonBody{file, n}})
	case n.Kind == manifest.Map:
		for _, f := range n.Fields {
			more := append(append([]string(nil), labels...), f.Name)
			out = append(out, jsonBlocksBelow(file, kind, more, depth-1, f.Value)...)
		}
	}
	return out
}

// A jsonBody is a body in JSON, whose strings are templates.
type jsonBody struct {
	file string
	node *manifest.Node
}

func (b jsonBody) names() []string {
	var out []string
	for _, f := range b.node.Fields {
		out = append(out, f.Name)
	}
	return out
}

func (b jsonBody) value(e *evaluator, name string) *manifest.Node {
	n := b.node.Get(name)
	if n == nil {
		return nil
	}
	in := *e
	in.file = b.file
	return in.expand(n)
}

func (b jsonBody) inner(kind string) []block {
	n := b.node.Get(kind)
	if n == nil || kind == "set" && n.Kind == manifest.List {
		return nil // value gives the list
	}
	return jsonBlocksBelow(b.file, kind, nil, 0, n)
}

// expand evaluates the templates in a JSON value.
func (e *evaluator) expand(n *manifest.Node) *manifest.Node {
	line := n.Line
	if e.line > 0 {
		line = e.line
	}
	switch n.Kind {
	case manifest.String:
		if !strings.Contains(n.Text, "${") && !strings.Contains(n.Text, "%{") || tooDeep([]byte(n.Text), hclsyntax.LexTemplate) > 0 {
			return &manifest.Node{Kind: manifest.String, Line: line, Text: n.Text}
		}
		expr, diags := hclsyntax.ParseTemplate([]byte(n.Text), e.file, hcl.InitialPos)
		if diags.HasErrors() {
			return &manifest.Node{Kind: manifest.String, Line: line, Text: n.Text}
		}
		return e.within(e.file, []byte(n.Text), line).eval(expr)
	case manifest.List:
		out := &manifest.Node{Kind: manifest.List, Line: line}
		for _, item := range n.Items {
			out.Items = append(out.Items, e.expand(item))
		}
		return out
	case manifest.Map:
		out := &manifest.Node{Kind: manifest.Map, Line: line}
		for _, f := range n.Fields {
			out.Fields = append(out.Fields, manifest.Field{Name: f.Name, Line: f.Line, Value: e.expand(f.Value)})
		}
		return out
	}
	return n
}
