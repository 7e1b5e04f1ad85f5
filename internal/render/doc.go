// Package render turns a plan and what is known about it into what a person
// reads: a table for a terminal, one self-contained page for a browser, the
// reasoning about one pod, notes with their places, and a list of instance
// types. It decides nothing and reads nothing; the same Report always gives the
// same bytes.
package render

import (
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A Report is everything there is to show about one plan.
type Report struct {
	Snapshot model.Snapshot
	Plan     plan.Plan
	Trace    model.Trace
	Notes    []model.Note
}

// Options say what the reader's screen can do. The zero value is a plain ASCII
// page of DefaultWidth columns.
type Options struct {
	Width   int  // columns; 0 = DefaultWidth, never less than MinWidth
	Unicode bool // bars, arrows and signs beyond ASCII
	Colour  bool // ANSI colours; they carry no meaning that the text does not
	Wide    bool // every node, note and reason by itself instead of folded
}

// Widths of a page in columns.
const (
	DefaultWidth = 100
	MinWidth     = 64
	textWidth    = 130 // prose is not wrapped wider than this
	hoursAMonth  = 730
)

func (o Options) width() int {
	if o.Width == 0 {
		return DefaultWidth
	}
	return max(o.Width, MinWidth)
}
