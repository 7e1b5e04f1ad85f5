package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
)

// A failure is an error that says where, what, and what to do next.
type failure struct {
	note model.Note
}

func (f failure) Error() string { return f.note.Text }

// fail makes a failure without a place.
func fail(code, fix, format string, args ...any) error {
	return failure{model.Note{Code: code, Severity: model.Error, Text: fmt.Sprintf(format, args...), Fix: fix}}
}

// report writes an error to standard error, or as JSON where the results would
// have gone when the caller asked for JSON.
func (a *app) report(err error, asJSON bool) {
	note := model.Note{Code: "failed", Severity: model.Error, Text: err.Error()}
	if f := (failure{}); errors.As(err, &f) {
		note = f.note
	} else if f := (*intake.FileError)(nil); errors.As(err, &f) {
		note = f.Note()
	}
	if asJSON {
		e := json.NewEncoder(a.Out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		_ = e.Encode(render.ErrorJSON(note)) // where standard output is gone there is nobody to tell
		return
	}
	_ = render.Failure(a.Err, note, a.screen(a.Err, false))
}

// wantsJSON looks for -o json among arguments that may not parse.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "-o", "--output":
			if i+1 < len(args) && args[i+1] == "json" {
				return true
			}
		case "-ojson", "-o=json", "--output=json":
			return true
		}
	}
	return false
}

// noCommand refuses the arguments of the root command, which are commands that
// do not exist.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	fix := "commands are " + strings.Join(names, ", ")
	if near := nearest(args[0], names); near != "" {
		fix = "did you mean kerf " + near + "? " + fix
	}
	return fail("unknown-command", fix, "kerf has no command %q", args[0])
}

// noArguments refuses arguments, which most likely are files without -f.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	fix := c.CommandPath() + " --help lists the flags"
	if c.Flags().Lookup("file") != nil {
		fix = "did you mean " + c.CommandPath() + " -f " + args[0] + "?"
	}
	return fail("unexpected-argument", fix, "%s takes no argument %q", c.CommandPath(), args[0])
}

// flagError adds a next step to what the flag parser says.
func flagError(c *cobra.Command, err error) error {
	fix := c.CommandPath() + " --help lists the flags"
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		if near := nearest(unknown.GetSpecifiedName(), names); near != "" {
			fix = "did you mean --" + near + "? " + fix
		}
	}
	return fail("flag", fix, "%s: %s", c.CommandPath(), strings.TrimSpace(err.Error()))
}

// oneOf refuses a flag value that is not among those allowed.
func oneOf(flag, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	fix := "--" + flag + " takes " + strings.Join(allowed, ", ")
	if near := nearest(value, allowed); near != "" {
		fix = "did you mean " + near + "? " + fix
	}
	return fail("flag", fix, "--%s: unknown value %q", flag, value)
}

// nearest returns the name that is a slip of the keyboard away from word, or "".
func nearest(word string, names []string) string {
	best, at := "", 1+len(word)/3
	for _, n := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(n)); d <= at && (best == "" || d < at) {
			best, at = n, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
