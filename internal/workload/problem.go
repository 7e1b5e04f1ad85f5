package workload

import (
	"cmp"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// problem turns what the decoder met into a note, and into a refusal where the
// API server would refuse the object.
func (r *reader) problem(o *object, p problem) {
	place := model.Place{File: o.doc.File, Line: p.Line, Object: o.doc.Title(), Field: p.Path}
	switch {
	case p.Server != "":
		o.refused = append(o.refused, model.Verdict{Code: model.CodeInvalid, Key: p.Path, Detail: p.Server})
		r.notes = append(r.notes, model.Note{
			Code: "invalid", Severity: model.Error, Place: place,
			Text: p.Found + " where " + p.Want + " belongs: the API server refuses the object", Fix: mend(p),
		})
	case strings.HasPrefix(p.Path, "status."):
		// Written by a server that may be newer than the types known here.
	default:
		r.notes = append(r.notes, unknownField(o, p, place))
	}
}

// unknownField is an error when a known field was meant: then the object does
// not do what it says.
func unknownField(o *object, p problem, place model.Place) model.Note {
	n := model.Note{
		Code: "unknown-field", Severity: model.Warning, Place: place,
		Text: cmp.Or(p.Of, o.doc.Kind) + " has no such field", Fix: "remove it",
	}
	if groupOf(o.kind.serves) != "kerf.dev" {
		n.Text += "; kubectl refuses the object, other clients drop the field"
	}
	if p.Near != "" {
		n.Severity = model.Error
		n.Fix = "write " + p.Near
	}
	return n
}

func mend(p problem) string {
	switch {
	case p.Want == "a string" && (strings.HasPrefix(p.Found, "the number ") || strings.HasPrefix(p.Found, "the boolean ")):
		_, text, _ := strings.Cut(strings.TrimPrefix(p.Found, "the "), " ")
		return `quote it: "` + text + `"`
	case strings.HasPrefix(p.Want, "a quantity"):
		return "write a number with one of the suffixes m, k, M, G, T, Ki, Mi, Gi or Ti, or none"
	default:
		return "write " + p.Want
	}
}
