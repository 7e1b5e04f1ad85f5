package rule

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A Rule is one check as a value.
type Rule struct {
	Name     string // kebab-case, the Code of its notes
	Doc      string // what it looks for, why, and the source of the fact
	Severity model.Severity
	// Run returns the rule's notes on a Snapshot, in no particular order. The
	// Snapshot is not written to.
	Run func(model.Snapshot) []model.Note
}

// A check is a Rule whose facts about the Snapshot are worked out once for all rules.
type check struct {
	name     string
	doc      string
	severity model.Severity
	run      func(*view) []model.Note
}

// notes runs the check and puts its name and severity on what it finds.
func (c check) notes(v *view) []model.Note {
	out := c.run(v)
	for i := range out {
		out[i].Code, out[i].Severity = c.name, c.severity
	}
	return out
}

func checks() []check {
	return slices.Concat(pluginChecks, configChecks, poolChecks, nodeChecks, podChecks, namespaceChecks)
}

// All lists the rules, in the order of the package's table.
func All() []Rule {
	var out []Rule
	for _, c := range checks() {
		out = append(out, Rule{Name: c.name, Doc: c.doc, Severity: c.severity, Run: func(s model.Snapshot) []model.Note {
			return fold(c.notes(newView(s)))
		}})
	}
	return out
}

// Run applies every rule. Notes are sorted by file, line and name; notes of one
// rule that say the same of one file are one note with the further lines in Also.
func Run(s model.Snapshot) []model.Note {
	v := newView(s)
	var out []model.Note
	for _, c := range checks() {
		out = append(out, c.notes(v)...)
	}
	return fold(out)
}

func fold(notes []model.Note) []model.Note {
	slices.SortStableFunc(notes, compare)
	type cause struct{ code, file, text, fix string }
	first := map[cause]int{}
	var out []model.Note
	for _, n := range notes {
		key := cause{n.Code, n.Place.File, n.Text, n.Fix}
		i, ok := first[key]
		if !ok {
			first[key] = len(out)
			out = append(out, n)
			continue
		}
		if line := n.Place.Line; line != out[i].Place.Line && !slices.Contains(out[i].Also, line) {
			out[i].Also = append(out[i].Also, line)
		}
	}
	return out
}

func compare(a, b model.Note) int {
	if c := strings.Compare(a.Place.File, b.Place.File); c != 0 {
		return c
	}
	if a.Place.Line != b.Place.Line {
		return a.Place.Line - b.Place.Line
	}
	if c := strings.Compare(a.Code, b.Code); c != 0 {
		return c
	}
	return strings.Compare(a.Text, b.Text)
}
