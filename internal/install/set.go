package install

import (
	"errors"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// maxIndex is the largest list index that Helm's --set accepts.
const maxIndex = 65536

// assign applies one {name, value} pair to values by the rules of helm --set.
// values is not written to.
func (r *reader) assign(d manifest.Document, values, pair *manifest.Node, text bool) *manifest.Node {
	name := pair.Get("name").Str()
	steps, err := parsePath(name)
	if err != nil {
		r.note(model.Error, "set-path", d, pair.Get("name"), "", "the name "+strconv.Quote(name)+" is no path to a value: "+err.Error(), "write it as for helm --set, for example config.default or tolerations[0].key")
		return values
	}
	return put(values, steps, typed(pair.Get("value"), text))
}

// A step of a path is a field's name or a list index.
type step struct {
	name  string
	index int // -1 for a name
}

// parsePath splits "a.b[0].c"; a backslash takes the next character as it is.
func parsePath(path string) ([]step, error) {
	var steps []step
	var b strings.Builder
	pending := false // a name is being read
	flush := func() {
		if pending {
			steps = append(steps, step{b.String(), -1})
		}
		b.Reset()
		pending = false
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '\\':
			if i++; i < len(path) {
				b.WriteByte(path[i])
				pending = true
			}
		case '.':
			if !pending && (i == 0 || path[i-1] != ']') {
				return nil, errors.New("a name is missing before a dot")
			}
			flush()
		case '[':
			flush()
			end := strings.IndexByte(path[i:], ']')
			if end < 0 {
				return nil, errors.New("a bracket is not closed")
			}
			n, err := strconv.Atoi(path[i+1 : i+end])
			if err != nil || n < 0 || n > maxIndex {
				return nil, errors.New("the index in brackets must be a number from 0 to 65536")
			}
			steps = append(steps, step{index: n})
			i += end
		default:
			b.WriteByte(c)
			pending = true
		}
	}
	flush()
	if len(steps) == 0 || steps[0].index >= 0 {
		return nil, errors.New("it does not begin with a name")
	}
	if len(steps) > 100 {
		return nil, errors.New("it has more than 100 parts")
	}
	return steps, nil
}

// put returns n with the value at the end of the steps replaced.
func put(n *manifest.Node, steps []step, v *manifest.Node) *manifest.Node {
	if len(steps) == 0 {
		return v
	}
	s := steps[0]
	if s.index >= 0 {
		out := &manifest.Node{Kind: manifest.List, Line: v.Line}
		out.Items = append(out.Items, items(n)...)
		for len(out.Items) <= s.index {
			out.Items = append(out.Items, &manifest.Node{Line: v.Line})
		}
		out.Items[s.index] = put(out.Items[s.index], steps[1:], v)
		return out
	}
	out := &manifest.Node{Kind: manifest.Map, Line: v.Line}
	if n != nil && n.Kind == manifest.Map {
		out.Line = n.Line
		out.Fields = append(out.Fields, n.Fields...)
	}
	for i := len(out.Fields) - 1; i >= 0; i-- {
		if out.Fields[i].Name == s.name {
			out.Fields[i] = manifest.Field{Name: s.name, Line: v.Line, Value: put(out.Fields[i].Value, steps[1:], v)}
			return out
		}
	}
	out.Fields = append(out.Fields, manifest.Field{Name: s.name, Line: v.Line, Value: put(nil, steps[1:], v)})
	return out
}

// overlay merges b over a as Helm merges values: maps field by field, all else
// replaced. Neither is written to.
func overlay(a, b *manifest.Node) *manifest.Node {
	if b == nil {
		return a
	}
	if a == nil || a.Kind != manifest.Map || b.Kind != manifest.Map {
		return b
	}
	out := a
	for _, f := range b.Fields {
		out = put(out, []step{{f.Name, -1}}, overlay(a.Get(f.Name), f.Value))
	}
	return out
}

// typed reads a value as helm --set does: true, false, null and whole numbers
// are what they look like unless text is wanted, and {a,b} is a list.
func typed(v *manifest.Node, text bool) *manifest.Node {
	if v == nil {
		return &manifest.Node{Kind: manifest.String}
	}
	if v.Kind != manifest.String && v.Kind != manifest.Number && v.Kind != manifest.Bool {
		return v
	}
	out := &manifest.Node{Kind: manifest.String, Line: v.Line, Text: v.Text}
	if text {
		return out
	}
	if inner, ok := strings.CutPrefix(v.Text, "{"); ok && strings.HasSuffix(inner, "}") {
		out.Kind, out.Text = manifest.List, ""
		for item := range strings.SplitSeq(strings.TrimSuffix(inner, "}"), ",") {
			if item = strings.TrimSpace(item); item != "" {
				out.Items = append(out.Items, typed(&manifest.Node{Kind: manifest.String, Line: v.Line, Text: item}, false))
			}
		}
		return out
	}
	switch {
	case v.Text == "true" || v.Text == "false":
		out.Kind = manifest.Bool
	case v.Text == "null":
		out.Kind, out.Text = manifest.Null, ""
	case v.Text == "0":
		out.Kind = manifest.Number
	case !strings.HasPrefix(v.Text, "0"):
		if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
			out.Kind, out.Text = manifest.Number, strconv.FormatInt(n, 10)
		}
	}
	out.Text = strings.ReplaceAll(out.Text, `\,`, ",")
	return out
}
