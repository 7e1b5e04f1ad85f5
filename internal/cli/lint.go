package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/render"
)

var textOutputs = []string{"table", "json", "yaml"}

func (a *app) lintCommand() *cobra.Command {
	var in input
	var output string
	var wide bool
	c := &cobra.Command{
		Use:   "lint [-f PATH...]",
		Short: "what is wrong or surprising in manifests, with file, line and fix",
		Long: `  kerf lint -f infra/ -f apps/
  kerf lint

Reads manifests, or the current cluster, as kerf plan does and runs the checks
alone.
Exit code: 0 nothing above info, 2 warnings or errors, 1 unusable input.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.lint(in, output, wide) },
	}
	in.fileFlag(c.Flags())
	in.cluster.flags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	c.Flags().BoolVar(&wide, "wide", false, "every note by itself")
	in.bookFlags(c)
	in.tolerationFlag(c.Flags())
	complete(c, "output", textOutputs)
	return c
}

func (a *app) lint(in input, output string, wide bool) error {
	if err := oneOf("output", output, textOutputs); err != nil {
		return err
	}
	p := a.newProgress("reading")
	defer p.done()
	loaded, err := a.load(in, p)
	if err != nil {
		return err
	}
	notes := allNotes(loaded)
	p.done()
	if slices.ContainsFunc(notes, func(n model.Note) bool { return n.Severity > model.Info }) {
		a.code = exitFindings
	}
	if output != "table" {
		text, err := encode(output, render.NotesJSON(notes))
		if err != nil {
			return err
		}
		return a.write("", text)
	}
	if len(notes) == 0 {
		_, err := fmt.Fprintln(a.Out, "nothing to say")
		return err
	}
	return render.Notes(a.Out, notes, a.screen(a.Out, wide))
}
