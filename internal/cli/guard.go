package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/policy"
	"github.com/kerfdev/kerf/internal/render"
)

func (a *app) guardCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "guard",
		Short: "GPUs that are had past the device plugin: an audit, its rules, and policies",
		Long: `  kerf guard scan -f apps/
  kerf guard rules env-cuda-version
  kerf guard policies | kubectl apply -f -

GPUs are had through an extended resource or a resource claim, or not at all.
The guard finds what gets at them in other ways, and what counts them wrongly.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.guardScanCommand(), a.guardRulesCommand(), a.guardPoliciesCommand())
	return c
}

// exemptions are the flags by which identities are exempt.
type exemptions struct {
	names     []string
	noDefault bool
}

func (e *exemptions) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&e.names, "exempt", nil, "`IDENTITY` that may break rules: namespace or namespace/serviceaccount, and :rule,rule for some only; may be repeated")
	f.BoolVar(&e.noDefault, "no-default-exemptions", false, "do not exempt kube-system and the namespaces of NVIDIA's and Kerf's own charts")
}

// all are the exemptions that count.
func (e *exemptions) all() (guard.Exemptions, error) {
	var out guard.Exemptions
	if !e.noDefault {
		out = guard.DefaultExemptions()
	}
	for _, name := range e.names {
		x, err := guard.ParseExemption(name)
		if err != nil {
			return nil, fail("flag", "kerf guard rules lists the rules", "--exempt: %v", err)
		}
		out = append(out, x)
	}
	return out, nil
}

func (a *app) guardRulesCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "rules [RULE]",
		Short: "what the guard looks for, and why",
		Long: `  kerf guard rules
  kerf guard rules env-cuda-version
  kerf guard rules -o json

Lists the rules, or explains one: what happens, the fix, who may need it, where
the fact comes from, and who can see it.`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(ruleNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return a.guardRules(args, output) },
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	complete(c, "output", textOutputs)
	return c
}

func ruleNames() []string {
	var out []string
	for _, r := range guard.Rules() {
		out = append(out, r.Name)
	}
	return out
}

func (a *app) guardRules(args []string, output string) error {
	if err := oneOf("output", output, textOutputs); err != nil {
		return err
	}
	rules := guard.Rules()
	if len(args) > 0 {
		rules = nil
	}
	for _, name := range args {
		r, ok := guard.Named(name)
		if !ok {
			fix := "kerf guard rules lists them"
			if near := nearest(name, ruleNames()); near != "" {
				fix = "did you mean " + near + "?"
			}
			return fail("unknown-rule", fix, "the guard has no rule %q", name)
		}
		rules = append(rules, r)
	}
	if output != "table" {
		text, err := encode(output, render.RulesJSON(rules))
		if err != nil {
			return err
		}
		return a.write("", text)
	}
	if len(args) == 0 {
		return render.Rules(a.Out, rules, a.screen(a.Out, false))
	}
	for _, r := range rules {
		if err := render.Rule(a.Out, r, a.screen(a.Out, false)); err != nil {
			return err
		}
	}
	return nil
}

type policiesOptions struct {
	exemptions
	open     bool
	mutating bool
	unseen   bool
}

func (a *app) guardPoliciesCommand() *cobra.Command {
	var o policiesOptions
	c := &cobra.Command{
		Use:   "policies",
		Short: "the rules as admission policies that the API server evaluates itself",
		Long: `  kerf guard policies --exempt monitoring/dcgm-exporter | kubectl apply -f -
  kerf guard policies --mutating | kubectl apply -f -
  kerf guard policies --unseen

Writes ValidatingAdmissionPolicies (Kubernetes 1.30 and later) with their
bindings, or the MutatingAdmissionPolicy (1.36 and later) that shows containers
without a GPU none, whatever their image says. What only the webhook or a scan
can see is listed by --unseen.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.guardPolicies(o) },
	}
	o.flags(c.Flags())
	c.Flags().BoolVar(&o.open, "fail-open", false, "let pods in when a policy cannot be evaluated")
	c.Flags().BoolVar(&o.mutating, "mutating", false, "the mutating policy instead of the validating ones")
	c.Flags().BoolVar(&o.unseen, "unseen", false, "the rules that policies cannot see, or not all of, and why")
	return c
}

func (a *app) guardPolicies(o policiesOptions) error {
	if o.unseen {
		return render.Unseen(a.Out, unseen(), a.screen(a.Out, false))
	}
	ex, err := o.all()
	if err != nil {
		return err
	}
	p := policy.Options{Exemptions: ex, Open: o.open}
	if o.mutating {
		return a.write("", policy.Mutation(p).YAML())
	}
	return a.write("", policy.YAML(policy.Policies(p)))
}

// unseen is the table of what policies cannot see, as rows of words.
func unseen() [][3]string {
	var out [][3]string
	for _, u := range policy.UnseenRules() {
		who := "webhook, scan"
		if u.Who == guard.ByScan {
			who = "scan"
		}
		out = append(out, [3]string{u.Rule, who, u.Why})
	}
	return out
}

// failing are the severities at which a scan can be told to fail.
var failing = []string{"error", "warning", "info", "never"}

// fails reports whether findings are as grave as --fail-on says.
func fails(r guard.Report, at string) bool {
	least := slices.Index(failing, at)
	return slices.ContainsFunc(r.Findings, func(f guard.Finding) bool {
		return slices.Index(failing, f.Severity.String()) <= least && at != "never"
	})
}
