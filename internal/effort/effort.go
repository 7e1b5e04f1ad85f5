// Package effort says how long Kerf searches when nobody asks for more or less,
// so that the commands which plan the same files come to the same plan.
package effort

import "github.com/kerfdev/kerf/internal/solve"

// Steps is the default of kerf plan --steps, for the search and for the proof
// each: some tenths of a second for a large input.
const Steps = 4_000_000

// Options are the solver's for a number of steps, the bound included.
func Options(steps int64) solve.Options { return solve.Options{Steps: steps, Prove: steps} }
