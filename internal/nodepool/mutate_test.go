package nodepool

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/source"
	"pgregory.net/rapid"
)

// TestAnyBrokenObjectIsReadTwiceTheSame breaks sound objects in one to three
// places, and asks that reading neither panics nor depends on chance, that
// every pool is kept, and that what Migrate writes can be parsed.
func TestAnyBrokenObjectIsReadTwiceTheSame(t *testing.T) {
	names := slices.Sorted(maps.Keys(versions))
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "pool")
		docs := parse(t, versions[name][rapid.IntRange(0, 2).Draw(rt, "version")])
		for range rapid.IntRange(1, 3).Draw(rt, "breaks") {
			i := rapid.IntRange(0, len(docs)-1).Draw(rt, "document")
			docs[i].Root = breakOne(rt, docs[i].Root)
		}
		first, notes := Read(docs)
		second, again := Read(docs)
		if diff := cmp.Diff(first, second) + cmp.Diff(notes, again); diff != "" {
			rt.Fatalf("two runs differ:\n%s", diff)
		}
		if len(first.Pools) != 1 {
			rt.Fatalf("%d pools", len(first.Pools))
		}
		m, err := Migrate(docs)
		if err != nil {
			rt.Fatal(err)
		}
		if out, notes := source.Parse(source.File{Name: "out.yaml", Data: m.YAML}); len(out) == 0 {
			rt.Fatalf("what was written cannot be read: %v\n%s", notes, m.YAML)
		}
	})
}

// breakOne replaces, drops, renames or repeats one node below the root.
func breakOne(t *rapid.T, root *manifest.Node) *manifest.Node {
	var below []*manifest.Node
	for n, at := range origins(root) {
		if at.path != "" && at.path != "apiVersion" && at.path != "kind" {
			below = append(below, n)
		}
	}
	slices.SortFunc(below, func(a, b *manifest.Node) int { return cmpOrigin(root, a, b) })
	victim := rapid.SampledFrom(below).Draw(t, "victim")
	other := rapid.SampledFrom(append(below, text(9, "x"), text(9, ""), number(9, "-1"), number(9, "1e400"), list(9), mapping(9), &manifest.Node{Line: 9},
		&manifest.Node{Kind: manifest.Bool, Line: 9, Text: "true"}, text(9, "${var.x}"))).Draw(t, "other")
	if isMap(victim) && rapid.Bool().Draw(t, "rename") && len(victim.Fields) > 0 {
		next := *victim
		next.Fields = slices.Clone(victim.Fields)
		i := rapid.IntRange(0, len(next.Fields)-1).Draw(t, "field")
		next.Fields[i].Name = rapid.SampledFrom([]string{"spec", "requirements", "values", "x", "limits", "a.b/c", ""}).Draw(t, "name")
		return swap(root, victim, &next)
	}
	return swap(root, victim, other)
}

func cmpOrigin(root *manifest.Node, a, b *manifest.Node) int {
	from := origins(root)
	return slices.Compare([]byte(from[a].path), []byte(from[b].path))
}
