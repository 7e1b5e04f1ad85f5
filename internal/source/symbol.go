package source

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// While a manifest is parsed, each unknown value is a mark of characters that
// mean nothing in YAML or HCL, so that "${var.zone}" may stand where braces
// could not. The marks become text again once the tree is built.
const (
	markOpen  = "\ue000"
	markClose = "\ue001"
)

var mark = regexp.MustCompile(markOpen + `(\d{1,9})` + markClose)

// shared is what the evaluators of one file have in common.
type shared struct {
	symbols []symbolUse
	values  map[string]*manifest.Node         // definitions, evaluated once
	lines   map[*manifest.Node][]int          // line in the file of each line of a text
	encoded map[*manifest.Node]*manifest.Node // what a text encodes, when a function made it
}

// A symbolUse is one unknown value and where it stands.
type symbolUse struct {
	text  string
	lines []int
	told  bool // another note speaks of it
}

func newShared() *shared {
	return &shared{values: map[string]*manifest.Node{}, lines: map[*manifest.Node][]int{}, encoded: map[*manifest.Node]*manifest.Node{}}
}

// symbol returns the mark of an unknown value.
func (s *shared) symbol(text string, line int) string {
	i := slices.IndexFunc(s.symbols, func(u symbolUse) bool { return u.text == text })
	if i < 0 {
		i = len(s.symbols)
		s.symbols = append(s.symbols, symbolUse{text: text})
	}
	s.symbols[i].lines = append(s.symbols[i].lines, line)
	return markOpen + strconv.Itoa(i) + markClose
}

// told says that a note speaks of the unknown value that text is.
func (s *shared) told(text string) {
	for i := range s.symbols {
		s.symbols[i].told = s.symbols[i].told || s.symbols[i].text == s.restore(text)
	}
}

// symbolic reports whether text holds a mark.
func symbolic(text string) bool { return strings.Contains(text, markOpen) }

// onlySymbol reports whether text is one mark and nothing else.
func onlySymbol(text string) bool { return mark.FindString(text) == strings.TrimSpace(text) }

// restore turns the marks in text back into what was written.
func (s *shared) restore(text string) string {
	if !symbolic(text) {
		return text
	}
	return mark.ReplaceAllStringFunc(text, func(m string) string {
		i, err := strconv.Atoi(m[len(markOpen) : len(m)-len(markClose)])
		if err != nil || i >= len(s.symbols) {
			return m
		}
		return s.symbols[i].text
	})
}

// restored copies a tree with every mark turned back.
func (s *shared) restored(n *manifest.Node) *manifest.Node {
	if n == nil {
		return nil
	}
	out := *n
	out.Text = s.restore(n.Text)
	out.Fields = make([]manifest.Field, 0, len(n.Fields))
	for _, f := range n.Fields {
		out.Fields = append(out.Fields, manifest.Field{Name: s.restore(f.Name), Line: f.Line, Value: s.restored(f.Value)})
	}
	out.Items = make([]*manifest.Node, 0, len(n.Items))
	for _, item := range n.Items {
		out.Items = append(out.Items, s.restored(item))
	}
	return &out
}

// notes names every unknown value once.
func (s *shared) notes(file string) []model.Note {
	var out []model.Note
	for _, u := range s.symbols {
		if u.told {
			continue
		}
		lines := slices.Compact(slices.Sorted(slices.Values(u.lines)))
		out = append(out, model.Note{
			Code: "unknown-value", Severity: model.Info,
			Place: model.Place{File: file, Line: lines[0]}, Also: lines[1:],
			Text: fmt.Sprintf("%s is not known from the files given; it stays as written", u.text),
		})
	}
	return out
}
