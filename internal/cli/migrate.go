package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/source"
)

var migrateOutputs = []string{"yaml", "json"}

func (a *app) migrateCommand() *cobra.Command {
	var in input
	var output string
	var wide bool
	c := &cobra.Command{
		Use:   "migrate -f PATH...",
		Short: "Karpenter manifests of any version as v1",
		Long: `  kerf migrate -f old.yaml > new.yaml

Writes NodePools, Provisioners, EC2NodeClasses and AWSNodeTemplates as v1 to
standard output, and every change and every thing that cannot be carried over to
standard error. Comments are lost.
Exit code: 0 all converted, 2 something could not be carried over, 1 unusable input.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.migrate(in, output, wide) },
	}
	in.fileFlag(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "yaml", "`FORMAT`: yaml or json")
	c.Flags().BoolVar(&wide, "wide", false, "every note by itself")
	complete(c, "output", migrateOutputs)
	return c
}

func (a *app) migrate(in input, output string, wide bool) error {
	if err := oneOf("output", output, migrateOutputs); err != nil {
		return err
	}
	files, err := a.read(in)
	if err != nil {
		return err
	}
	docs, notes := source.ParseAll(files)
	m, err := nodepool.Migrate(docs)
	if errors.Is(err, nodepool.ErrNothing) {
		return fail("nothing-to-migrate", "name the files that hold your Karpenter objects", "%v", err)
	}
	if err != nil {
		return err
	}
	m.Notes = append(notes, m.Notes...)
	if slices.ContainsFunc(m.Blocked, func(n model.Note) bool { return n.Severity > model.Info }) {
		a.code = exitFindings
	}
	if output == "json" {
		text, err := encode(output, render.ChangesJSON(m))
		if err != nil {
			return err
		}
		return a.write("", text)
	}
	if err := render.Changes(a.Err, m, a.screen(a.Err, wide)); err != nil {
		return err
	}
	return a.write("", m.YAML)
}
