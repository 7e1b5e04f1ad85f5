package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// Notes writes notes alone, the gravest first.
func Notes(w io.Writer, notes []model.Note, o Options) error {
	p := newPage(o)
	p.notes(notes)
	return p.flush(w)
}

// Failure writes the one error that a command stops at.
func Failure(w io.Writer, n model.Note, o Options) error {
	p := newPage(o)
	head := p.paint(red, "error") + " "
	if place := where(n); place != "" {
		if n.Place.Object != "" && n.Place.Object != place {
			place += "  " + n.Place.Object
		}
		if n.Place.Field != "" {
			place += "  " + n.Place.Field
		}
		p.line(head, p.paint(bold, place))
		head = "      "
	}
	p.para(head, n.Text)
	p.fix(6, n.Fix)
	return p.flush(w)
}

// Sorted orders notes by gravity, then by place, and leaves out repetitions.
func Sorted(notes []model.Note) []model.Note {
	out := slices.Clone(notes)
	slices.SortStableFunc(out, func(a, b model.Note) int {
		return cmp.Or(
			cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(placeless(a), placeless(b)),
			strings.Compare(a.Place.File, b.Place.File),
			cmp.Compare(a.Place.Line, b.Place.Line),
			strings.Compare(a.Code, b.Code),
			strings.Compare(a.Text, b.Text),
		)
	})
	return slices.CompactFunc(out, func(a, b model.Note) bool {
		return a.Severity == b.Severity && a.Place == b.Place && a.Code == b.Code && a.Text == b.Text && a.Fix == b.Fix
	})
}

// placeless sorts notes about nothing in particular behind the others.
func placeless(n model.Note) int {
	if n.Place.File == "" {
		return 1
	}
	return 0
}

func (p *page) notes(notes []model.Note) {
	notes = Sorted(notes)
	if len(notes) == 0 {
		return
	}
	p.line()
	p.line("  ", p.paint(bold, "notes"), p.paint(dim, p.say("  "+tallyNotes(notes))))
	infos := slices.IndexFunc(notes, func(n model.Note) bool { return n.Severity == model.Info })
	if infos < 0 {
		infos = len(notes)
	}
	if p.Wide {
		infos = len(notes)
	}
	col := p.placeColumn(notes[:infos])
	for _, n := range notes[:infos] {
		p.note(n, col)
	}
	p.infos(notes[infos:])
}

func tallyNotes(notes []model.Note) string {
	var n [3]int
	for _, x := range notes {
		n[x.Severity]++
	}
	var parts []string
	for _, s := range []model.Severity{model.Error, model.Warning, model.Info} {
		if n[s] > 0 {
			parts = append(parts, count(n[s], s.String()))
		}
	}
	return strings.Join(parts, " · ")
}

// note writes one note: severity, place, text, and its fix below. A place wider
// than col has a line to itself.
func (p *page) note(n model.Note, col int) {
	tint := map[model.Severity]style{model.Error: red, model.Warning: yellow, model.Info: dim}[n.Severity]
	head := "  " + p.paint(tint, pad(n.Severity.String(), 7)) + "  "
	place := where(n)
	if wide(place) <= col {
		head += pad(p.paint(bold, place), col+2)
		p.para(head, n.Text)
		p.fix(wide(head), n.Fix)
		return
	}
	title := p.paint(bold, place)
	if n.Place.Object != "" && n.Place.Object != place && wide(head)+wide(place)+2+wide(n.Place.Object) <= p.Width {
		title += "  " + p.paint(dim, n.Place.Object)
	}
	p.line(head, title)
	p.para(strings.Repeat(" ", wide(head)), n.Text)
	p.fix(wide(head), n.Fix)
}

// placeColumn is how wide a column of places may be: none on a narrow page,
// or where one place would take too much of it.
func (p *page) placeColumn(notes []model.Note) int {
	col := 0
	for _, n := range notes {
		col = max(col, wide(where(n)))
	}
	if p.Width < 120 || col > 40 {
		return 0
	}
	return col
}

// fix writes a next step after an arrow.
func (p *page) fix(indent int, text string) {
	if text != "" {
		p.para(strings.Repeat(" ", indent)+p.paint(cyan, p.say("→"))+" ", text)
	}
}

// where writes a note's place with every line: "infra/pool.tf:8,33".
func where(n model.Note) string {
	s := n.Place.String()
	if s == "" {
		s = n.Place.Object
	}
	for _, l := range n.Also {
		s += "," + strconv.Itoa(l)
	}
	return s
}

// infos writes notes that need no action, one for those that say the same.
func (p *page) infos(notes []model.Note) {
	for len(notes) > 0 {
		n := notes[0]
		var also []string
		rest := slices.DeleteFunc(slices.Clone(notes[1:]), func(o model.Note) bool {
			same := o.Code == n.Code && o.Text == n.Text
			if same {
				also = append(also, where(o))
			}
			return same
		})
		text := n.Text + alsoAt(also)
		if n.Fix != "" {
			text += " → " + n.Fix
		}
		if place := where(n); place != "" {
			text = place + " · " + text
		}
		p.para("  "+p.paint(dim, pad("info", 7))+"  ", text)
		notes = rest
	}
}

// alsoAt names the other places of a note, or counts them.
func alsoAt(places []string) string {
	switch {
	case len(places) == 0:
		return ""
	case len(places) <= 2:
		return " (also " + strings.Join(places, ", ") + ")"
	}
	return fmt.Sprintf(" (also at %d more places; --wide shows them)", len(places))
}
