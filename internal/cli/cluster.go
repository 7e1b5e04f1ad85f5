package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kerfdev/kerf/internal/live"
)

// cluster is which cluster a command may read, and whether it is to.
type cluster struct {
	allowed    bool // the command has the flags
	too        bool // besides the files
	audit      bool // read what a scan looks at beyond a plan
	kubeconfig string
	context    string
}

func (c *cluster) flags(f *pflag.FlagSet) {
	c.allowed = true
	c.where(f)
	f.BoolVar(&c.too, "cluster", false, "read the current cluster too, with the files of -f as if they were applied to it")
}

// where are the flags that say which cluster is meant.
func (c *cluster) where(f *pflag.FlagSet) {
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "`FILE` that says how to reach the cluster (default: $KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&c.context, "context", "", "`NAME` of the context in it (default: the current one)")
}

// wanted reports whether the cluster is to be read, given the files that are.
func (c *cluster) wanted(files []string) bool {
	return c.allowed && (len(files) == 0 || c.too || c.kubeconfig != "" || c.context != "")
}

// readCluster reads the cluster's objects.
func (a *app) readCluster(c cluster, p *progress) (live.Objects, error) {
	p.step("reading the cluster")
	where := live.Where{Kubeconfig: c.kubeconfig, Context: c.context, Getenv: a.Getenv}
	read := where.Read
	if c.audit {
		read = where.ReadAll
	}
	objects, err := read(context.Background())
	if err == nil {
		return objects, nil
	}
	if errors.Is(err, live.ErrNoCluster) {
		return objects, fail("no-input", "name files or folders: -f infra/ -f apps/, or -f - for standard input; or a cluster: --kubeconfig FILE",
			"nothing to read: no file is named, and no cluster is configured")
	}
	if why, ok := live.Unreachable(err); ok {
		return objects, fail("unreachable", "see that kubectl get nodes works; choose another cluster with --context, or plan files with -f", "no answer from the cluster at %s", why)
	}
	return objects, fail("cluster", "see that kubectl auth can-i list nodes,pods,nodepools says yes; choose another cluster with --context, or plan files with -f", "the cluster cannot be read: %v", err)
}

func (a *app) snapshotCommand() *cobra.Command {
	var c cluster
	var file string
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "what kerf reads of the current cluster, as one file to plan from later",
		Long: `  kerf snapshot > cluster.yaml
  kerf plan -f cluster.yaml

Writes the objects of the current cluster that a plan depends on as one YAML
list. Secrets are not read; command lines, user data and values of environment
variables are left out, but for those that say which GPUs a container sees.
Every command takes the file in place of the cluster. With --scan it holds what
kerf guard scan looks at too: CronJobs and claims of devices.`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.snapshot(c, file) },
	}
	c.where(cmd.Flags())
	cmd.Flags().BoolVar(&c.audit, "scan", false, "also what kerf guard scan looks at; a plan from such a file holds room for one run of every CronJob")
	cmd.Flags().StringVar(&file, "output-file", "", "`FILE` to write instead of standard output")
	return cmd
}

func (a *app) snapshot(c cluster, file string) error {
	p := a.newProgress("reading the cluster")
	defer p.done()
	objects, err := a.readCluster(c, p)
	if err != nil {
		return err
	}
	p.step("writing %d objects", len(objects.List))
	var b buffer
	text, err := b.got(live.WriteSnapshot(&b, objects))
	if err != nil {
		return err
	}
	p.done()
	for _, n := range objects.Notes {
		a.report(failure{n}, false)
	}
	return a.write(file, text)
}

func (a *app) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain",
		Short: "why a pod waits, or where it would go",
		Long: `  kerf explain pod trainer-0 -n team-a

Says of one pod of the current cluster where it would go and what it would
cost, or pool by pool why it goes nowhere and what would help.`,
		Args: noCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.explainPodCommand())
	return c
}

func (a *app) explainPodCommand() *cobra.Command {
	var o planOptions
	var namespace string
	c := &cobra.Command{
		Use:   "pod NAME",
		Short: "one pod, or the pods of one owner",
		Long: `  kerf explain pod trainer-0 -n team-a
  kerf explain pod team-a/trainer -f infra/ -f apps/

NAME is a pod's name, namespace/name, or its owner. With -f the pod is looked
for in files; with --cluster too, in the cluster as they would change it.
Exit code: 0 it has a place, 2 it has none, 1 unusable input.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return fail("argument", "kerf explain pod NAME -n NAMESPACE", "%s takes one name, not %d", c.CommandPath(), len(args))
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.explain = args[0]
			if namespace != "" && !strings.Contains(args[0], "/") {
				o.explain = namespace + "/" + args[0]
			}
			return a.plan(o)
		},
	}
	o.fileFlag(c.Flags())
	o.cluster.flags(c.Flags())
	c.Flags().StringVarP(&namespace, "namespace", "n", "", "`NAMESPACE` of the pod")
	c.Flags().StringVarP(&o.output, "output", "o", "table", "`FORMAT`: table, json or yaml")
	c.Flags().BoolVar(&o.wide, "wide", false, "every node, note and reason by itself")
	c.Flags().Int64Var(&o.steps, "steps", planSteps, "`N` steps of search for a cheaper plan")
	o.bookFlags(c)
	o.tolerationFlag(c.Flags())
	o.guardFlag(c)
	complete(c, "output", textOutputs)
	return c
}
