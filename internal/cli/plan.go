package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/effort"
	"github.com/kerfdev/kerf/internal/explain"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
	"github.com/kerfdev/kerf/internal/render"
	"github.com/kerfdev/kerf/internal/rule"
	"github.com/kerfdev/kerf/internal/solve"
)

type planOptions struct {
	input
	output  string
	file    string
	explain string
	wide    bool
	steps   int64
}

// planSteps is how long the commands search by default.
const planSteps = effort.Steps

var planOutputs = []string{"table", "json", "yaml", "html"}

func (a *app) planCommand() *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan [-f PATH...]",
		Short: "the nodes to launch, what goes where, what it costs, and why not",
		Long: `  kerf plan -f infra/ -f apps/
  kerf plan -f infra/ -f apps/ -o html --output-file fleet.html
  kerf plan -f infra/ -f apps/ --explain team-a/trainer
  kerf plan
  kerf plan --cluster -f changes/

Reads manifests of any supported version, packs the pods that wait onto the
nodes that exist and onto the cheapest new ones, and explains itself. Without
-f it plans the current cluster, with --cluster and -f what the cluster would
do if the files were applied. It changes nothing.
Exit code: 0 all placed, 2 something not placed, 1 unusable input.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.plan(o) },
	}
	o.fileFlag(c.Flags())
	o.cluster.flags(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table, json, yaml or html")
	c.Flags().StringVar(&o.file, "output-file", "", "`FILE` to write instead of standard output")
	c.Flags().StringVar(&o.explain, "explain", "", "the whole reasoning for one `POD`: its name, namespace/name, or owner")
	c.Flags().BoolVar(&o.wide, "wide", false, "every node, note and reason by itself")
	c.Flags().Int64Var(&o.steps, "steps", planSteps, "`N` steps of search for a cheaper plan; a million takes some tens of milliseconds")
	o.bookFlags(c)
	o.tolerationFlag(c.Flags())
	o.guardFlag(c)
	complete(c, "output", planOutputs)
	return c
}

// complete offers the values of a flag to the shell.
func complete(c *cobra.Command, flag string, values []string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) plan(o planOptions) error {
	if err := oneOf("output", o.output, planOutputs); err != nil {
		return err
	}
	if o.explain != "" && o.output == "html" {
		return fail("flag", "use -o table, json or yaml with --explain", "--explain has no page")
	}
	p := a.newProgress("reading")
	defer p.done()
	loaded, err := a.load(o.input, p)
	if err != nil {
		return err
	}
	s := loaded.Snapshot
	p.step("planning %d pods", len(s.Pods))
	answer, trace := solve.Solve(s, effort.Options(o.steps))
	if err := sound(s, answer); err != nil {
		return err
	}
	r := render.Report{Snapshot: s, Plan: answer, Trace: trace, Notes: allNotes(loaded)}
	p.step("writing")
	text, err := a.draw(o, r)
	if err != nil {
		return err
	}
	p.done()
	if len(answer.Unplaced) > 0 {
		a.code = exitFindings
	}
	return a.write(o.file, text)
}

// allNotes are what reading said and what the rules say, the gravest first.
func allNotes(l intake.Loaded) []model.Note {
	return render.Sorted(slices.Concat(l.Notes, rule.Run(l.Snapshot)))
}

// sound refuses to show a plan that breaks a rule of the scheduler.
func sound(s model.Snapshot, p plan.Plan) error {
	errs := plan.Check(s, p)
	if len(errs) == 0 {
		return nil
	}
	return fail("unsound-plan", "this is a mistake in Kerf, not in your files; please report it with them",
		"the plan does not hold: %v", errors.Join(errs[:min(3, len(errs))]...))
}

// draw renders what was asked for.
func (a *app) draw(o planOptions, r render.Report) ([]byte, error) {
	var b buffer
	switch {
	case o.explain != "":
		q, err := inquire(r, o.explain)
		if err != nil {
			return nil, err
		}
		if o.output == "table" {
			return b.got(render.Explain(&b, q, a.target(o.file, o.wide)))
		}
		return encode(o.output, render.InquiryJSON(q))
	case o.output == "table":
		return b.got(render.Table(&b, r, a.target(o.file, o.wide)))
	case o.output == "html":
		return b.got(render.HTML(&b, r))
	}
	doc, err := plan.Encode(r.Snapshot, r.Plan, r.Trace, r.Notes, words)
	if err != nil {
		return nil, fmt.Errorf("encode the plan: %w", err)
	}
	if o.output == "yaml" {
		return render.YAML(doc)
	}
	return doc, nil
}

// words puts a verdict into words for JSON.
func words(v model.Verdict) (string, []string) {
	s := explain.Verdict(v)
	return s.Text, s.Fixes
}

// target is the screen that a table is written for.
func (a *app) target(file string, wide bool) render.Options {
	if file != "" {
		return a.screen(nil, wide)
	}
	return a.screen(a.Out, wide)
}

// write puts results into a file, or on standard output.
func (a *app) write(file string, text []byte) error {
	if file == "" {
		if _, err := a.Out.Write(text); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fail("unwritable", "check the path given to --output-file", "%v", err)
	}
	fmt.Fprintln(a.Err, "wrote", file)
	return nil
}
