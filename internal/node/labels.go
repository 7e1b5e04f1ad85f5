package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/discovery"
	"github.com/kerfdev/kerf/internal/nodeconfig"
)

func (a *app) labelsCommand() *cobra.Command {
	var file, kubeconfig, node string
	var remove, all bool
	c := &cobra.Command{
		Use:   "labels",
		Short: "the labels that describe this machine's GPUs",
		Long: `  kerf-node labels --config shared.yaml --inventory a100
  kerf-node labels --remove --node-name gpu-1
  kerf-node labels --remove --all

Writes the labels that the agent keeps on its Node, without the timestamp. With
--remove it takes them off a Node, or off all that have them, for an uninstall:
an agent that ends leaves them.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case remove && all:
				return a.removeAll(c, kubeconfig)
			case remove:
				return a.removeLabels(c, kubeconfig, node)
			case all:
				return errors.New("--all goes with --remove: other labels than those of this machine are not known")
			}
			return a.printLabels(c, file)
		},
	}
	name, _ := a.Env("NODE_NAME")
	c.Flags().StringVar(&file, "config", "", "a device config (default: nothing is shared)")
	c.Flags().BoolVar(&remove, "remove", false, "take the labels off the Node")
	c.Flags().BoolVar(&all, "all", false, "with --remove, off every Node that has them")
	c.Flags().StringVar(&node, "node-name", name, "the Node, for --remove (NODE_NAME)")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster, for --remove (default: as a pod does)")
	return a.outputs(a.of(c), "table", "json")
}

func (a *app) printLabels(c *cobra.Command, file string) error {
	var cfg deviceconfig.Config
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read config: %w", err)
		}
		var warnings []string
		if cfg, warnings, err = nodeconfig.Decode(file, data, false); err != nil {
			return err
		}
		a.warn(warnings)
	}
	cfg, err := a.resolve(cfg, nil)
	if err != nil {
		return err
	}
	inv, err := a.read(c, false)
	if err != nil {
		return err
	}
	labels, warnings := discovery.Labels(inv, cfg, time.Time{})
	a.warn(warnings)
	if a.output == "json" {
		return a.json(struct {
			Version string            `json:"version"`
			Labels  map[string]string `json:"labels"`
		}{"kerf.dev/labels/v1", labels})
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(a.Out, "%s=%s\n", k, labels[k])
	}
	return nil
}

func (a *app) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(a.Err, "warning", w)
	}
}

func (a *app) removeLabels(c *cobra.Command, kubeconfig, node string) error {
	if node == "" {
		return errors.New("whose labels? name the Node with --node-name or NODE_NAME, or give --all")
	}
	cluster, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	return cluster.teller(node).RemoveLabels(c.Context())
}

// removeAll takes the labels off every Node; one that fails does not keep them
// on the others.
func (a *app) removeAll(c *cobra.Command, kubeconfig string) error {
	cluster, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	names, err := cluster.teller("").Labelled(c.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		err := cluster.teller(name).RemoveLabels(c.Context())
		if err == nil {
			fmt.Fprintln(a.Out, "labels removed from", name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
