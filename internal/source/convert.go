package source

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// Bounds on what a document may grow to: aliases multiply values without
// writing them, and nesting costs stack.
const (
	maxAliased = 200_000 // values that exist only through aliases
	maxDepth   = 500
)

// A lineError is a refusal of our own, its line already that of the file.
type lineError struct {
	code, text, fix string
	severity        model.Severity
	line            int
}

func (e *lineError) Error() string { return e.text }

// A converter turns the nodes of one document into ours.
type converter struct {
	lineOf  func(int) int
	sizes   map[*yaml.Node]int            // values below an anchor, itself included
	done    map[*yaml.Node]*manifest.Node // anchors; nil while being built
	aliased int                           // values that aliases added
	remarks
}

// remarks are what is to be said of a document that can be read.
type remarks struct {
	words []int  // lines of booleans that read as words
	word  string // the first of them
}

func (c *converter) document(doc *yaml.Node) (*manifest.Node, error) {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, nil
	}
	root, _, err := c.node(doc.Content[0], 0)
	return root, err
}

// node converts n and returns how many values it holds.
func (c *converter) node(n *yaml.Node, depth int) (*manifest.Node, int, error) {
	if depth > maxDepth {
		return nil, 0, c.fail(n, "nesting", "values are nested more than 500 deep", "")
	}
	if n.Kind == yaml.AliasNode {
		return c.alias(n)
	}
	out := &manifest.Node{Line: c.lineOf(n.Line)}
	if n.Anchor != "" {
		c.done[n] = nil
	}
	size, err := c.fill(out, n, depth)
	if n.Anchor != "" {
		c.done[n], c.sizes[n] = out, size
	}
	return out, size, err
}

func (c *converter) fill(out *manifest.Node, n *yaml.Node, depth int) (int, error) {
	switch n.Kind {
	case yaml.MappingNode:
		return c.mapping(out, n, depth)
	case yaml.SequenceNode:
		out.Kind = manifest.List
		size := 1
		for _, item := range n.Content {
			v, s, err := c.node(item, depth+1)
			if err != nil {
				return 0, err
			}
			out.Items = append(out.Items, v)
			size += s
		}
		return size, nil
	default:
		out.Kind, out.Text = scalar(n)
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			out.TextLine = c.lineOf(n.Line + 1)
		}
		c.remark(out.Kind, n.Value, out.Line)
		return 1, nil
	}
}

// mapping converts a map. Keys that a merge brings come first and only where
// the map does not set them itself, so that they never look repeated.
func (c *converter) mapping(out *manifest.Node, n *yaml.Node, depth int) (int, error) {
	out.Kind = manifest.Map
	size := 1
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, value)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return 0, c.complexKey(key)
		}
		v, s, err := c.node(value, depth+1)
		if err != nil {
			return 0, err
		}
		kind, _ := scalar(key)
		c.remark(kind, key.Value, c.lineOf(key.Line))
		out.Fields = append(out.Fields, manifest.Field{Name: keyText(key), Line: c.lineOf(n.Content[i].Line), Value: v})
		size += s
	}
	for _, m := range merges {
		s, err := c.merge(out, m, depth)
		if err != nil {
			return 0, err
		}
		size += s
	}
	return size, nil
}

// merge adds the fields of a merge key's map, or of its list of maps, of which
// the first that has a field counts.
func (c *converter) merge(out *manifest.Node, value *yaml.Node, depth int) (int, error) {
	from, size, err := c.node(value, depth+1)
	if err != nil {
		return 0, err
	}
	maps := []*manifest.Node{from}
	if from.Kind == manifest.List {
		maps = from.Items
	}
	var added []manifest.Field
	for _, m := range maps {
		if m.Kind != manifest.Map {
			return 0, c.fail(value, "syntax", "a merge key << must be given a map or a list of maps", "")
		}
		for _, f := range m.Fields {
			same := func(o manifest.Field) bool { return o.Name == f.Name }
			if !slices.ContainsFunc(out.Fields, same) && !slices.ContainsFunc(added, same) {
				added = append(added, manifest.Field{Name: f.Name, Line: f.Line, Value: m.Get(f.Name)})
			}
		}
	}
	out.Fields = append(added, out.Fields...)
	return size, nil
}

// alias shares the anchor's value, so that a bomb costs no memory; what it
// would cost whoever walks the tree is bounded here.
func (c *converter) alias(n *yaml.Node) (*manifest.Node, int, error) {
	target, known := c.done[n.Alias]
	if !known || target == nil {
		return nil, 0, c.fail(n, "alias", "the alias *"+n.Value+" stands inside the value that it names", "")
	}
	c.aliased += c.sizes[n.Alias]
	if c.aliased > maxAliased {
		return nil, 0, c.fail(n, "alias", "aliases expand this document to more than 200,000 values", "write the values out, or remove the aliases")
	}
	return target, c.sizes[n.Alias], nil
}

func (c *converter) complexKey(key *yaml.Node) error {
	if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
		t := template(c.lineOf(key.Line))
		return &lineError{code: t.Code, severity: t.Severity, text: t.Text, fix: t.Fix, line: t.Place.Line}
	}
	return c.fail(key, "syntax", "a list or a map is used as a key", "")
}

func (c *converter) fail(n *yaml.Node, code, text, fix string) error {
	return &lineError{code: code, severity: model.Error, text: text + ", so the document was not read", fix: fix, line: c.lineOf(n.Line)}
}

// remark notes a boolean whose spelling is a word to most people.
func (r *remarks) remark(kind manifest.Kind, word string, line int) {
	if kind != manifest.Bool || booleans11[word] == "" {
		return
	}
	if r.word == "" {
		r.word = word
	}
	r.words = append(r.words, line)
}

// notes tells of such booleans, once a document.
func (r *remarks) notes() []model.Note {
	if len(r.words) == 0 {
		return nil
	}
	return []model.Note{{
		Code: "yaml-boolean", Severity: model.Info,
		Place: model.Place{Line: r.words[0]}, Also: slices.Compact(r.words[1:]),
		Text: r.word + " without quotes is the boolean " + booleans11[r.word] + " to Kubernetes, as in YAML 1.1",
		Fix:  "write true or false, or quote it if the word is meant",
	}}
}
