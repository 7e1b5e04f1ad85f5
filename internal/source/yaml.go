package source

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

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

// Nested parses the YAML that a string value of a document holds, such as a
// device config in a ConfigMap. Lines are those of the file that the string
// stands in. A text that is empty gives nil and no note. Notes have no file yet.
func Nested(n *manifest.Node) (*manifest.Node, []model.Note) {
	if n == nil || n.Kind != manifest.String {
		return nil, nil
	}
	lineOf := func(int) int { return n.Line }
	if n.TextLine > 0 {
		lineOf = func(line int) int { return n.TextLine + line - 1 }
	}
	roots, notes := parseYAML(n.Text, lineOf)
	if len(roots) == 0 {
		return nil, notes
	}
	return roots[0], notes
}

// parseYAML reads every document of text. A document that cannot be read costs
// only itself. lineOf maps a line of text to one of the file.
func parseYAML(text string, lineOf func(int) int) ([]*manifest.Node, []model.Note) {
	all := chunks(text)
	parts := make([]part, len(all))
	each(len(all), func(i int) {
		parts[i].roots, parts[i].notes = all[i].parse(func(line int) int { return lineOf(line + all[i].skip) })
	})
	var roots []*manifest.Node
	var notes []model.Note
	for _, p := range parts {
		roots = append(roots, p.roots...)
		notes = append(notes, p.notes...)
	}
	return roots, notes
}

// A part is what one chunk holds.
type part struct {
	roots []*manifest.Node
	notes []model.Note
}

// each calls f for 0 to n-1, on all cores when it pays, and waits for the last.
func each(n int, f func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n/64)
	if workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

// A chunk is the text between two document markers.
type chunk struct {
	text string
	skip int // lines before it
}

// chunks splits at lines that start with "---", which can stand only between
// documents. What follows the marker on its line belongs to the document.
func chunks(text string) []chunk {
	var out []chunk
	start, skip, line := 0, 0, 0
	flush := func(end int) {
		if body := text[start:end]; meaningful(body) {
			out = append(out, chunk{body, skip})
		}
	}
	for at := 0; at < len(text); line++ {
		next := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		if marker(text[at:next]) {
			flush(at)
			start, skip = at+len("---"), line
		}
		at = next
	}
	flush(len(text))
	return out
}

func marker(line string) bool {
	rest, ok := strings.CutPrefix(line, "---")
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// meaningful reports whether a chunk holds more than comments and directives.
func meaningful(body string) bool {
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' && line[0] != '%' && line != "..." {
			return true
		}
	}
	return false
}

// parse reads a chunk, which holds one document unless "..." ends it early.
func (c chunk) parse(lineOf func(int) int) (roots []*manifest.Node, notes []model.Note) {
	defer func() {
		// The parser panics on some inputs that it should refuse.
		if r := recover(); r != nil {
			notes = append(notes, c.refused(fmt.Errorf("%v", r), lineOf))
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(c.text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots, notes
		}
		if err != nil {
			return roots, append(notes, c.refused(err, lineOf))
		}
		conv := converter{lineOf: lineOf, sizes: map[*yaml.Node]int{}, done: map[*yaml.Node]*manifest.Node{}}
		root, err := conv.document(&doc)
		if err != nil {
			return roots, append(notes, c.refused(err, lineOf))
		}
		notes = append(notes, conv.notes()...)
		if root != nil && root.Kind != manifest.Null {
			roots = append(roots, root)
		}
	}
}

var lineInError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?(?:line \d+: )?`)

// refused words an error of the parser.
func (c chunk) refused(err error, lineOf func(int) int) model.Note {
	if at := (*lineError)(nil); errors.As(err, &at) {
		return model.Note{Code: at.code, Severity: at.severity, Place: model.Place{Line: at.line}, Text: at.text, Fix: at.fix}
	}
	if at := strings.Index(c.text, "{{"); at >= 0 {
		return template(lineOf(1 + strings.Count(c.text[:at], "\n")))
	}
	why := lineInError.ReplaceAllString(err.Error(), "")
	note := model.Note{
		Code: "syntax", Severity: model.Error, Place: model.Place{Line: lineOf(c.pinpoint(why))},
		Text: "this is not valid YAML, so the document was not read: " + why,
	}
	if tab := tabbed(c.text); tab > 0 {
		note.Place.Line = lineOf(tab)
		note.Fix = "indent with spaces: YAML does not allow tabs there"
	}
	return note
}

// pinpoint finds the first line up to which the text fails in this way. The
// parser itself names the start of the block around the mistake, or one line
// too few.
func (c chunk) pinpoint(why string) int {
	lines := strings.SplitAfter(c.text, "\n")
	return 1 + sort.Search(len(lines)-1, func(i int) bool {
		return lineInError.ReplaceAllString(failure(strings.Join(lines[:i+1], "")), "") == why
	})
}

// failure is the parser's error for text, "" when there is none.
func failure(text string) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = fmt.Sprint(r)
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return ""
		} else if err != nil {
			return err.Error()
		}
	}
}

// tabbed finds the first line that is indented with a tab.
func tabbed(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.HasPrefix(strings.TrimLeft(line, " "), "\t") && strings.TrimSpace(line) != "" {
			return n
		}
	}
	return 0
}

// template says that a Helm template was given in place of its result.
func template(line int) model.Note {
	return model.Note{
		Code: "helm-template", Severity: model.Warning, Place: model.Place{Line: line},
		Text: "this is a template with {{ }} and no manifest yet, so it was not read",
		Fix:  "render it first: helm template RELEASE CHART | kerf plan -f -",
	}
}

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
	words   []int                         // lines of booleans that read as words
	word    string                        // the first of them
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
		c.remark(out.Kind, n)
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
		c.remark(kind, key)
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
func (c *converter) remark(kind manifest.Kind, n *yaml.Node) {
	if kind != manifest.Bool || booleans11[n.Value] == "" {
		return
	}
	if c.word == "" {
		c.word = n.Value
	}
	c.words = append(c.words, c.lineOf(n.Line))
}

// notes tells of such booleans, once a document.
func (c *converter) notes() []model.Note {
	if len(c.words) == 0 {
		return nil
	}
	return []model.Note{{
		Code: "yaml-boolean", Severity: model.Info,
		Place: model.Place{Line: c.words[0]}, Also: slices.Compact(c.words[1:]),
		Text: c.word + " without quotes is the boolean " + booleans11[c.word] + " to Kubernetes, as in YAML 1.1",
		Fix:  "write true or false, or quote it if the word is meant",
	}}
}
