package render

import (
	"io"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// Changes lists what a migration rewrote, what it could not carry over, and what
// else it noticed.
func Changes(w io.Writer, m nodepool.Migration, o Options) error {
	p := newPage(o)
	if len(m.Changes) > 0 {
		p.line()
		p.line("  ", p.paint(bold, "changed"), p.paint(dim, "  "+count(len(m.Changes), "thing")))
	}
	last := ""
	for _, c := range m.Changes {
		if title := heading(c.Place); title != last {
			p.line("  ", p.paint(cyan, title))
			last = title
		}
		p.change(c)
	}
	if len(m.Blocked) > 0 {
		p.line()
		p.line("  ", p.paint(bold, p.paint(red, "not carried over")), p.paint(dim, "  "+count(len(m.Blocked), "thing")))
		for _, n := range Sorted(m.Blocked) {
			p.note(n, 0)
		}
	}
	p.notes(m.Notes)
	return p.flush(w)
}

// heading names an object and its file.
func heading(p model.Place) string {
	return strings.TrimSpace(p.Object + "  " + p.File)
}

// change writes "line 12  old → new".
func (p *page) change(c nodepool.Change) {
	head := "    "
	if c.Place.Line > 0 {
		head += "line " + padLeft(strconv.Itoa(c.Place.Line), 4) + "  "
	}
	text := c.Old + " → " + c.New
	if c.Old == "" {
		text = "added " + c.New
	} else if c.New == "" {
		text = "removed " + c.Old
	}
	p.para(head, text)
}

// A ChangesDoc is what kerf migrate writes in JSON.
type ChangesDoc struct {
	Version string      `json:"version"`
	YAML    string      `json:"yaml"` // the objects as v1
	Changes []ChangeDoc `json:"changes"`
	Blocked []NoteDoc   `json:"blocked"` // what could not be carried over
	Notes   []NoteDoc   `json:"notes"`
}

// A ChangeDoc is one thing that the new object says differently.
type ChangeDoc struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Object string `json:"object"`
	Field  string `json:"field,omitempty"`
	Old    string `json:"old"`
	New    string `json:"new"`
}

// ChangesJSON puts a migration into its document.
func ChangesJSON(m nodepool.Migration) ChangesDoc {
	d := ChangesDoc{Version: ChangesVersion, YAML: string(m.YAML), Changes: []ChangeDoc{}, Blocked: []NoteDoc{}, Notes: []NoteDoc{}}
	for _, c := range m.Changes {
		d.Changes = append(d.Changes, ChangeDoc{c.Place.File, c.Place.Line, c.Place.Object, c.Place.Field, c.Old, c.New})
	}
	for _, n := range Sorted(m.Blocked) {
		d.Blocked = append(d.Blocked, noteDoc(n))
	}
	for _, n := range Sorted(m.Notes) {
		d.Notes = append(d.Notes, noteDoc(n))
	}
	return d
}
