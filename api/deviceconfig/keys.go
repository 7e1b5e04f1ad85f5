package deviceconfig

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// A shape lists the keys of a map of the schema. A key with a nil shape holds a
// scalar, or a list of scalars.
type shape struct {
	keys []key
	// fold is set where the plugin decodes into a struct, so that the case of a
	// key does not matter. Sections and their entries are decoded key by key,
	// and there it does.
	fold bool
}

type key struct {
	name  string
	shape *shape // of the value, or of the list's items
}

var (
	entryShape   = &shape{keys: []key{{"name", nil}, {"rename", nil}, {"devices", nil}, {"replicas", nil}}}
	sectionShape = &shape{keys: []key{{"renameByDefault", nil}, {"failRequestsGreaterThanOne", nil}, {"resources", entryShape}}}
	patternShape = &shape{keys: []key{{"pattern", nil}, {"name", nil}}}
	configShape  = &shape{fold: true, keys: []key{
		{"version", nil},
		{"flags", flagShape("")},
		{"resources", &shape{fold: true, keys: []key{{"gpus", patternShape}, {"mig", patternShape}}}},
		{"sharing", &shape{fold: true, keys: []key{{"timeSlicing", sectionShape}, {"mps", sectionShape}}}},
		{"imex", &shape{fold: true, keys: []key{{"channelIDs", nil}, {"required", nil}}}},
	}}
)

// homes tells for keys that people put in the wrong place where they belong.
// Keys that say nothing by themselves ("name", "resources") are not among them.
var homes = func() map[string]string {
	out := map[string]string{
		"timeslicing": "sharing.timeSlicing", "mps": "sharing.mps", "migstrategy": "flags.migStrategy",
		"renamebydefault": "sharing.timeSlicing.renameByDefault", "failrequestsgreaterthanone": "sharing.timeSlicing.failRequestsGreaterThanOne",
		"channelids": "imex.channelIDs",
	}
	for _, f := range flagTable {
		out[strings.ToLower(f.name())] = "flags." + f.path
	}
	return out
}()

// canonical rebuilds the tree with every key spelt as the schema spells it, so
// that the rest of the decoder can look up names. What it changes on the way
// it reports.
func (d *decoder) canonical(n *manifest.Node) *manifest.Node {
	sharing := folded(n, "sharing")
	d.mpsOnly = folded(sharing, "mps") != nil && folded(sharing, "timeSlicing") == nil
	root := d.respell(n, configShape, "")
	for _, path := range sortedKeys(d.strays) {
		d.adopt(root, path, d.strays[path])
	}
	return root
}

// respell returns a copy of n with canonical keys; what is not a map or a list
// of maps is returned as it is.
func (d *decoder) respell(n *manifest.Node, s *shape, path string) *manifest.Node {
	if n == nil || s == nil {
		return n
	}
	out := &manifest.Node{Kind: n.Kind, Line: n.Line, Text: n.Text}
	for i, item := range n.Items {
		out.Items = append(out.Items, d.respell(item, s, index(path, i)))
	}
	written := map[string]string{}
	for _, f := range n.Fields {
		k, ok := d.lookup(n, f, s, path)
		if !ok {
			continue
		}
		if first, twice := written[k.name]; twice && first != f.Name {
			d.fail(keyNode(f), manifest.Join(path, k.name), "keep one of them", "%s is given twice, as %s and as %s", k.name, first, f.Name)
		}
		written[k.name] = f.Name
		value := d.respell(f.Value, k.shape, manifest.Join(path, k.name))
		out.Fields = append(out.Fields, manifest.Field{Name: k.name, Line: f.Line, Value: value})
	}
	return out
}

// lookup finds the key of the schema that f stands for, and reports when it is
// not spelt so or not known.
func (d *decoder) lookup(n *manifest.Node, f manifest.Field, s *shape, path string) (key, bool) {
	for _, k := range s.keys {
		if k.name == f.Name {
			return k, true
		}
	}
	for _, k := range s.keys {
		if s.fold && strings.EqualFold(k.name, f.Name) {
			d.warn(keyNode(f), manifest.Join(path, f.Name), "write "+k.name, "%s is spelt %s in the schema; the plugin reads it whatever the case", f.Name, k.name)
			return k, true
		}
	}
	return d.unknown(n, f, s, path)
}

// unknown reports a key that the plugin ignores, and guesses what was meant.
func (d *decoder) unknown(n *manifest.Node, f manifest.Field, s *shape, path string) (key, bool) {
	at := manifest.Join(path, f.Name)
	if harmless(f) {
		d.warn(keyNode(f), at, "", "the plugin ignores %s", f.Name)
		return key{}, false
	}
	if home, ok := d.home(f.Name); ok && !isHere(s, f.Name) {
		d.fail(keyNode(f), at, "move it to "+home, "the plugin ignores %s here; it belongs at %s", f.Name, home)
		d.stray(home, f)
		return key{}, false
	}
	names := s.names()
	near := manifest.Nearest(f.Name, names)
	if near == "" || n.Get(near) != nil {
		d.fail(keyNode(f), at, "remove it", "unknown key %s, which the plugin ignores; known here: %s", f.Name, strings.Join(names, ", "))
		return key{}, false
	}
	d.fail(keyNode(f), at, "write "+near, "unknown key %s, which the plugin ignores; read as %s", f.Name, near)
	return s.keys[slices.Index(names, near)], true
}

// home returns the path at which a misplaced key belongs. What may stand in
// either section belongs to the one that is there.
func (d *decoder) home(name string) (string, bool) {
	path, ok := homes[strings.ToLower(name)]
	if d.mpsOnly {
		path = strings.Replace(path, "sharing.timeSlicing.", "sharing.mps.", 1)
	}
	return path, ok
}

func (s *shape) names() []string {
	var out []string
	for _, k := range s.keys {
		out = append(out, k.name)
	}
	return out
}

// isHere reports whether s has the key in another case.
func isHere(s *shape, name string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return strings.EqualFold(k.name, name) })
}

// harmless reports whether a key is plainly meant for other readers.
func harmless(f manifest.Field) bool {
	name := strings.ToLower(f.Name)
	for _, p := range []string{"x-", "_", "$", "//", "#"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return slices.Contains([]string{"comment", "comments", "description"}, name)
}

func (d *decoder) stray(home string, f manifest.Field) {
	if d.strays == nil {
		d.strays = map[string]manifest.Field{}
	}
	d.strays[home] = f
}

// adopt puts a misplaced value where it belongs, unless something stands there
// or there is no section that it could be for.
func (d *decoder) adopt(root *manifest.Node, path string, f manifest.Field) {
	names := strings.Split(path, ".")
	parents, last := names[:len(names)-1], names[len(names)-1]
	at := root
	for _, name := range parents {
		next := at.Get(name)
		if next == nil && (parents[0] == "flags" || len(parents) == 1) {
			next = &manifest.Node{Kind: manifest.Map, Line: f.Line}
			at.Fields = append(at.Fields, manifest.Field{Name: name, Line: f.Line, Value: next})
		}
		at = next
	}
	if at == nil || at.Kind != manifest.Map || at.Get(last) != nil {
		return
	}
	value := f.Value
	if path == "sharing.timeSlicing" || path == "sharing.mps" {
		value = d.respell(f.Value, sectionShape, path)
	}
	at.Fields = append(at.Fields, manifest.Field{Name: last, Line: f.Line, Value: value})
}

// folded returns the value of the field called name in any case, or nil.
func folded(n *manifest.Node, name string) *manifest.Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return nil
}

// keyNode stands for a key in messages, so that the line is the key's.
func keyNode(f manifest.Field) *manifest.Node { return &manifest.Node{Line: f.Line} }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// index appends a list index to a field path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
