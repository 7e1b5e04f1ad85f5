package node

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/internal/nvml"
)

func (a *app) inventoryCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "inventory",
		Short: "what GPUs this machine has",
		Long: `  kerf-node inventory > node.yaml

Writes what the driver says of the machine's GPUs: their models, MIG instances,
memory, NUMA nodes and links. Every other command takes the file with
--inventory, on any machine.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.printInventory(c) },
	}
	return a.outputs(a.of(c), "yaml", "json")
}

func (a *app) printInventory(c *cobra.Command) error {
	inv, err := a.read(c, true)
	if err != nil {
		return err
	}
	for _, u := range inv.Unreadable {
		fmt.Fprintf(a.Err, "warning GPU %d does not answer: %s\n", u.Index, u.Why)
	}
	if a.output == "json" {
		return a.json(inv)
	}
	text, err := nvml.Encode(inv)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}
