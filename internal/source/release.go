package source

import (
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// helmRelease makes one document of a helm_release: its values merged in their
// order, as Helm does, and its set blocks as written.
func (e *evaluator) helmRelease(p *parsed, file, via string, b block) {
	root := &manifest.Node{Kind: manifest.Map, Line: b.line}
	for _, name := range []string{"name", "namespace", "chart", "repository", "version"} {
		if v := b.body.value(e, name); v != nil {
			root.Fields = append(root.Fields, manifest.Field{Name: name, Line: v.Line, Value: v})
		}
	}
	values := e.values(p, file, via, b)
	root.Fields = append(root.Fields, manifest.Field{Name: "values", Line: values.Line, Value: values})
	if set := e.sets(b); len(set.Items) > 0 {
		root.Fields = append(root.Fields, manifest.Field{Name: "set", Line: set.Line, Value: set})
	}
	root = e.shared.restored(root)
	p.append(manifest.Document{
		File: file, Via: via, Kind: manifest.KindHelmRelease, Root: root,
		Name: root.Get("name").Str(), Namespace: root.Get("namespace").Str(),
	})
}

// values merges the items of the values list; one that is not known is named.
func (e *evaluator) values(p *parsed, file, via string, b block) *manifest.Node {
	out := &manifest.Node{Kind: manifest.Map, Line: b.line}
	list := b.body.value(e, "values")
	if list == nil {
		return out
	}
	out.Line = list.Line
	items := list.Items
	if list.Kind != manifest.List {
		items = []*manifest.Node{list}
	}
	for _, item := range items {
		roots, notes := e.trees(item)
		for _, n := range notes {
			n.Place.File, n.Place.Object = file, via
			p.notes = append(p.notes, n)
		}
		for _, root := range roots {
			if root.Kind != manifest.Map {
				e.shared.told(root.Text)
				p.notes = append(p.notes, unreadValues(file, via, item.Line, e.shared.restore(root.Text)))
				continue
			}
			out = overlay(out, root)
		}
	}
	return out
}

func unreadValues(file, via string, line int, text string) model.Note {
	return model.Note{
		Code: "unknown-value", Severity: model.Warning, Place: model.Place{File: file, Line: line, Object: via, Field: "values"},
		Text: "values of " + via + " are " + text + ", which is not known from the files given; the chart's defaults count in their place",
		Fix:  "give the file that they come from as well",
	}
}

// overlay merges b over a as Helm merges values: maps field by field, all else
// replaced.
func overlay(a, b *manifest.Node) *manifest.Node {
	if a == nil || a.Kind != manifest.Map || b.Kind != manifest.Map {
		return b
	}
	out := &manifest.Node{Kind: manifest.Map, Line: b.Line, Fields: append([]manifest.Field(nil), a.Fields...)}
	earlier := len(out.Fields)
	for _, f := range b.Fields {
		at := -1
		for i := range out.Fields[:earlier] {
			if out.Fields[i].Name == f.Name {
				at = i
			}
		}
		if at < 0 {
			out.Fields = append(out.Fields, f) // repeated keys of b stay repeated
			continue
		}
		out.Fields[at] = manifest.Field{Name: f.Name, Line: f.Line, Value: overlay(out.Fields[at].Value, f.Value)}
	}
	return out
}

// sets lists the set, set_list and set_sensitive blocks, or the attribute of
// the same name that version 3 of the provider has.
func (e *evaluator) sets(b block) *manifest.Node {
	out := &manifest.Node{Kind: manifest.List, Line: b.line}
	for _, kind := range []string{"set", "set_list", "set_sensitive"} {
		for _, inner := range b.body.inner(kind) {
			item := &manifest.Node{Kind: manifest.Map, Line: inner.line}
			for _, name := range []string{"name", "value", "type"} {
				if v := inner.body.value(e, name); v != nil {
					item.Fields = append(item.Fields, manifest.Field{Name: name, Line: v.Line, Value: v})
				}
			}
			out.Items = append(out.Items, item)
		}
		if v := b.body.value(e, kind); v != nil && v.Kind == manifest.List {
			out.Items = append(out.Items, v.Items...)
		}
	}
	return out
}
