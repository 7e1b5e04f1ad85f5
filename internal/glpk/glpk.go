// Package glpk gives a linear program to GLPK's glpsol, a solver that shares
// nothing with internal/lp. Tests and the benchmark hold Kerf's answers against
// its. Nothing of Kerf's plans depends on it.
package glpk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/lp"
)

// ErrAbsent says that glpsol is not on PATH.
var ErrAbsent = errors.New("glpsol is not on this machine; Debian has it in the package glpk-utils")

// An Answer is what glpsol says of a program. Value and Dual count where Status
// is lp.Optimal.
type Answer struct {
	Status lp.Status
	Value  float64
	Dual   []float64 // by row, with the signs of lp.Solution
}

// Solve minimises the cost of the columns subject to the rows, until the
// context ends.
func Solve(ctx context.Context, rows []lp.Row, columns []lp.Column) (Answer, error) {
	program, err := exec.LookPath("glpsol")
	if err != nil {
		return Answer{}, ErrAbsent
	}
	dir, err := os.MkdirTemp("", "kerf-glpk-")
	if err != nil {
		return Answer{}, fmt.Errorf("make a folder for glpsol: %w", err)
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "program.mps"), filepath.Join(dir, "answer")
	if err := os.WriteFile(in, MPS(rows, columns), 0o600); err != nil {
		return Answer{}, fmt.Errorf("write the program for glpsol: %w", err)
	}
	// The dual simplex method is the quick one for covering programs, whose slack
	// basis it can start from. Where it finds no prices, the primal one has to say
	// whether that is for want of a point or of an optimum.
	a, err := run(ctx, len(rows), program, out, "--freemps", in, "--dual")
	if errors.Is(err, errPriceless) {
		a, err = run(ctx, len(rows), program, out, "--freemps", in, "--primal")
	}
	return a, err
}

// errPriceless is the end of a search that only proves that there is no optimum.
var errPriceless = errors.New("no row prices are feasible")

// run calls glpsol and reads what it writes. Its presolver is off, since it ends
// without a status where there is no optimum.
func run(ctx context.Context, rows int, program, out string, args ...string) (Answer, error) {
	said, err := exec.CommandContext(ctx, program, append(args, "--min", "--nopresol", "--write", out)...).CombinedOutput()
	if ctx.Err() != nil {
		return Answer{}, fmt.Errorf("glpsol was ended before it had an answer: %w", ctx.Err())
	}
	if err != nil {
		return Answer{}, fmt.Errorf("run glpsol: %w: %s", err, last(said))
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return Answer{}, fmt.Errorf("glpsol wrote no answer: %s", last(said))
	}
	return read(text, rows)
}

// last is the end of what a program said.
func last(said []byte) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return lines[len(lines)-1]
}

// read takes an answer in the format of glpsol --write (GLPK 5.0, appendix of
// its reference manual): a line "s" with the status and the value, a line "i" a row.
func read(text []byte, rows int) (Answer, error) {
	a := Answer{Dual: make([]float64, rows)}
	known := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		var err error
		switch {
		case len(f) == 0:
		case f[0] == "s":
			known = true
			err = a.status(f)
		case f[0] == "i":
			err = a.row(f)
		}
		if err != nil {
			return Answer{}, fmt.Errorf("read glpsol's answer %q: %w", lines.Text(), err)
		}
	}
	if !known {
		return Answer{}, errors.New("glpsol's answer has no status")
	}
	return a, nil
}

// status reads "s bas ROWS COLUMNS PRIMAL DUAL VALUE", where PRIMAL and DUAL are
// f for feasible, n for proven not to be, i and u for not known.
func (a *Answer) status(f []string) (err error) {
	switch verdict := strings.Join(f[4:len(f)-1], ""); verdict {
	case "ff":
		a.Status = lp.Optimal
	case "nf", "nn", "ni", "nu":
		a.Status = lp.Infeasible
	case "fn":
		a.Status = lp.Unbounded
	case "in":
		return errPriceless
	default:
		return fmt.Errorf("status %q is not known", verdict)
	}
	a.Value, err = strconv.ParseFloat(f[len(f)-1], 64)
	return err
}

// row reads "i ROW STATUS PRIMAL DUAL".
func (a *Answer) row(f []string) error {
	at, err := strconv.Atoi(f[1])
	if err != nil || at < 1 || at > len(a.Dual) {
		return fmt.Errorf("row %q is not known", f[1])
	}
	a.Dual[at-1], err = strconv.ParseFloat(f[len(f)-1], 64)
	return err
}
