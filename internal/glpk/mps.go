package glpk

import (
	"bytes"
	"fmt"
	"math"

	"github.com/kerfdev/kerf/internal/lp"
)

// MPS writes a program in the free MPS format, which any solver reads. Rows are
// named R0, R1, ... and columns C0, C1, ...; every figure is written in full.
func MPS(rows []lp.Row, columns []lp.Column) []byte {
	var b bytes.Buffer
	b.WriteString("NAME KERF\nROWS\n N COST\n")
	for i, r := range rows {
		fmt.Fprintf(&b, " %c R%d\n", "LGE"[r.Sense], i)
	}
	b.WriteString("COLUMNS\n")
	for j, c := range columns {
		fmt.Fprintf(&b, " C%d COST %.17g\n", j, c.Cost)
		for _, e := range c.Entries {
			fmt.Fprintf(&b, " C%d R%d %.17g\n", j, e.Row, e.Value)
		}
	}
	b.WriteString("RHS\n")
	for i, r := range rows {
		if r.RHS != 0 {
			fmt.Fprintf(&b, " RHS R%d %.17g\n", i, r.RHS)
		}
	}
	b.WriteString("BOUNDS\n")
	for j, c := range columns {
		bounds(&b, j, c)
	}
	b.WriteString("ENDATA\n")
	return b.Bytes()
}

// bounds writes what differs from the format's own bounds, zero and infinity.
// The lower one comes first: an upper one below zero would move it otherwise.
func bounds(b *bytes.Buffer, j int, c lp.Column) {
	switch {
	case c.Lower == c.Upper:
		fmt.Fprintf(b, " FX BND C%d %.17g\n", j, c.Lower)
		return
	case math.IsInf(c.Lower, -1) && math.IsInf(c.Upper, 1):
		fmt.Fprintf(b, " FR BND C%d\n", j)
		return
	case math.IsInf(c.Lower, -1):
		fmt.Fprintf(b, " MI BND C%d\n", j)
	case c.Lower != 0 || c.Upper < 0:
		fmt.Fprintf(b, " LO BND C%d %.17g\n", j, c.Lower)
	}
	if !math.IsInf(c.Upper, 1) {
		fmt.Fprintf(b, " UP BND C%d %.17g\n", j, c.Upper)
	}
}
