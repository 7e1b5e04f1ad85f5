package nodepool

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// The functions of this file make new trees out of old ones. No node is ever
// written to after it was built; what is not on the way to a change is shared.

func text(line int, s string) *manifest.Node {
	return &manifest.Node{Kind: manifest.String, Line: line, Text: s}
}

func number(line int, s string) *manifest.Node {
	return &manifest.Node{Kind: manifest.Number, Line: line, Text: s}
}

func list(line int, items ...*manifest.Node) *manifest.Node {
	return &manifest.Node{Kind: manifest.List, Line: line, Items: items}
}

// mapping makes a map of the fields whose value is not nil.
func mapping(line int, fields ...manifest.Field) *manifest.Node {
	out := &manifest.Node{Kind: manifest.Map, Line: line}
	for _, f := range fields {
		if f.Value != nil {
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}

func entry(name string, value *manifest.Node) manifest.Field {
	return manifest.Field{Name: name, Line: value.LineOf(), Value: value}
}

func requirement(line int, key, operator string, values ...string) *manifest.Node {
	items := make([]*manifest.Node, len(values))
	for i, v := range values {
		items[i] = text(line, v)
	}
	return mapping(line, entry("key", text(line, key)), entry("operator", text(line, operator)), entry("values", list(line, items...)))
}

func split(path string) []string { return strings.Split(path, ".") }

// isMap reports whether n may hold fields.
func isMap(n *manifest.Node) bool { return n != nil && n.Kind == manifest.Map }

// set returns n with value at path, making maps on the way. A value that is
// there is replaced where it stands, a new one is added at the end. What stands
// on the way and is no map is left alone, and n is returned.
func set(n *manifest.Node, path string, value *manifest.Node) *manifest.Node {
	return put(n, split(path), entry("", value))
}

func put(n *manifest.Node, names []string, f manifest.Field) *manifest.Node {
	if n == nil || n.Kind == manifest.Null {
		n = mapping(f.Line)
	}
	if n.Kind != manifest.Map {
		return n
	}
	if len(names) > 1 {
		f = manifest.Field{Line: f.Line, Value: put(n.Get(names[0]), names[1:], f)}
	}
	f.Name = names[0]
	return withField(n, f)
}

// withField returns n with a field set, and n itself when it holds that very value.
func withField(n *manifest.Node, f manifest.Field) *manifest.Node {
	out := *n
	out.Fields = slices.Clone(n.Fields)
	for i := len(out.Fields) - 1; i >= 0; i-- {
		if out.Fields[i].Name == f.Name {
			if out.Fields[i].Value == f.Value {
				return n
			}
			f.Line = out.Fields[i].Line
			out.Fields[i] = f
			return &out
		}
	}
	out.Fields = append(out.Fields, f)
	return &out
}

// drop returns n without what stands at path; maps that it leaves empty stay.
func drop(n *manifest.Node, path string) *manifest.Node {
	names := split(path)
	if !isMap(n) || n.At(names...) == nil {
		return n
	}
	out := *n
	if len(names) > 1 {
		return withField(&out, manifest.Field{Name: names[0], Value: drop(n.Get(names[0]), strings.Join(names[1:], "."))})
	}
	out.Fields = slices.DeleteFunc(slices.Clone(n.Fields), func(f manifest.Field) bool { return f.Name == names[0] })
	return &out
}

// at follows a path of plain names.
func at(n *manifest.Node, path string) *manifest.Node { return n.At(split(path)...) }

// edit returns n with every item of the list at path replaced by what f makes
// of it, without those for which f returns nil, and n itself when f changes none.
func edit(n *manifest.Node, path string, f func(item *manifest.Node) *manifest.Node) *manifest.Node {
	old := at(n, path)
	if old == nil || old.Kind != manifest.List {
		return n
	}
	out := *old
	out.Items = nil
	for _, item := range old.Items {
		if next := f(item); next != nil {
			out.Items = append(out.Items, next)
		}
	}
	if slices.Equal(out.Items, old.Items) {
		return n
	}
	return set(n, path, &out)
}

// swap returns the tree n with the node old replaced, or left out where next is nil.
func swap(n, old, next *manifest.Node) *manifest.Node {
	if n == nil || n == old {
		return next
	}
	for i, f := range n.Fields {
		v := swap(f.Value, old, next)
		if v == f.Value {
			continue
		}
		out := *n
		out.Fields = slices.Clone(n.Fields)
		out.Fields[i].Value = v
		if v == nil {
			out.Fields = slices.Delete(out.Fields, i, i+1)
		}
		return &out
	}
	for i, item := range n.Items {
		v := swap(item, old, next)
		if v == item {
			continue
		}
		out := *n
		out.Items = slices.Clone(n.Items)
		out.Items[i] = v
		if v == nil {
			out.Items = slices.Delete(out.Items, i, i+1)
		}
		return &out
	}
	return n
}

// asText returns a scalar as the string that its writer evidently meant: true
// for "true", 2 for "2". Other nodes are returned as they are.
func asText(n *manifest.Node) *manifest.Node {
	if n == nil || (n.Kind != manifest.Bool && n.Kind != manifest.Number) {
		return n
	}
	return text(n.Line, n.Text)
}

// textValues applies asText to every value of a map.
func textValues(n *manifest.Node) *manifest.Node {
	if !isMap(n) {
		return n
	}
	out := *n
	out.Fields = slices.Clone(n.Fields)
	for i := range out.Fields {
		out.Fields[i].Value = asText(out.Fields[i].Value)
	}
	if slices.Equal(out.Fields, n.Fields) {
		return n
	}
	return &out
}

// An origin is where a node stood in the document that was read.
type origin struct {
	path string
	line int // of its key when it has one
}

// origins indexes every node of a document.
func origins(root *manifest.Node) map[*manifest.Node]origin {
	out := map[*manifest.Node]origin{}
	var walk func(n *manifest.Node, at origin)
	walk = func(n *manifest.Node, at origin) {
		if n == nil {
			return
		}
		out[n] = at
		for _, f := range n.Fields {
			walk(f.Value, origin{manifest.Join(at.path, f.Name), f.Line})
		}
		for i, item := range n.Items {
			walk(item, origin{at.path + "[" + strconv.Itoa(i) + "]", item.LineOf()})
		}
	}
	walk(root, origin{line: root.LineOf()})
	return out
}

// interpolation is a part of a string that Terraform fills in.
var interpolation = regexp.MustCompile(`\$\{[^}]*\}`)

// value makes the untyped JSON value of n as the API server's decoder would:
// whole numbers are int64. Of a repeated key the last value counts. For an
// interpolation stands 1, which is good text, a good number and a good quantity.
func value(n *manifest.Node) any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case manifest.Bool:
		return n.Text == "true"
	case manifest.Number:
		return numeric(n.Text)
	case manifest.String:
		return interpolation.ReplaceAllString(n.Text, "1")
	case manifest.List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = value(item)
		}
		return out
	case manifest.Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Name] = value(f.Value)
		}
		return out
	}
	return nil
}

func numeric(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s // too large for JSON: the schema will refuse the text
	}
	return f
}
