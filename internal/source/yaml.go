package source

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
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
	roots, notes := parseYAML(n.Text, lineOf, nil)
	if len(roots) == 0 {
		return nil, notes
	}
	return roots[0], notes
}

// parseYAML reads every document of text. A document that cannot be read costs
// only itself. lineOf maps a line of text to one of the file. With h only the
// heads of Pods are kept.
func parseYAML(text string, lineOf func(int) int, h *heads) ([]*manifest.Node, []model.Note) {
	all := chunks(text)
	parts := make([]part, len(all))
	each(len(all), func() func(int) {
		var s slab
		return func(i int) {
			parts[i].roots, parts[i].notes = all[i].parse(func(line int) int { return lineOf(line + all[i].skip) }, &s, h)
		}
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

// each calls what worker returns for 0 to n-1 and waits for the last. It does
// so on all cores when it pays, with a worker on each.
func each(n int, worker func() func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n/64)
	if workers < 2 {
		f := worker()
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			f := worker()
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
func (c chunk) parse(lineOf func(int) int, s *slab, h *heads) (roots []*manifest.Node, notes []model.Note) {
	if u, ok := split(c.text); ok {
		if root, notes, ok := u.read(lineOf, h); ok {
			return []*manifest.Node{root}, notes
		}
	}
	if root, r, ok := plainly(c.text, lineOf, h.room(s, c.text)); ok {
		root = h.cutFrom(s, root, func() *manifest.Node { whole, _, _ := plainly(c.text, lineOf, sized(len(c.text))); return whole })
		return []*manifest.Node{root}, r.notes()
	}
	return c.library(lineOf)
}

// library reads a chunk with the library, which knows all of YAML.
func (c chunk) library(lineOf func(int) int) (roots []*manifest.Node, notes []model.Note) {
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
// too few. Very long texts are searched only up to the first MiB.
func (c chunk) pinpoint(why string) int {
	lines := strings.SplitAfter(c.text[:min(len(c.text), maxText)], "\n")
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
