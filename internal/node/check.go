package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

// A checked is what came of checking one config.
type checked struct {
	File       string           `json:"file"`
	Errors     []string         `json:"errors,omitempty"`
	Warnings   []string         `json:"warnings,omitempty"`
	Sharing    string           `json:"sharing,omitempty"` // "time-slicing", "mps", "mig"
	Resources  map[string]int64 `json:"resources,omitempty"`
	MaxRequest map[string]int64 `json:"maxRequest,omitempty"`
	Devices    []checkedDevice  `json:"devices,omitempty"`

	ways map[string]string // of sharing, by resource
}

// A checkedDevice is a GPU or MIG instance and what it is advertised as.
type checkedDevice struct {
	Index     string           `json:"index"`
	UUID      string           `json:"uuid"`
	Product   string           `json:"product"`
	Resources map[string]int64 `json:"resources"`
}

func (a *app) checkCommand() *cobra.Command {
	var strategy string
	var lenient bool
	c := &cobra.Command{
		Use:   "check FILE...",
		Short: "what a node would advertise under a device config",
		Long: `  kerf-node config check shared.yaml --inventory a100

Checks configs of NVIDIA's device plugin and says what a node with the GPUs of an
inventory would advertise under each. Flags in a config and the agent's
environment count as they do on a node. Exit code 2: a config would not be used.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			inv, err := a.read(c, false)
			if err != nil {
				return err
			}
			given := map[string]string{}
			if c.Flags().Changed("mig-strategy") {
				given["mig-strategy"] = strategy
			}
			return a.check(files, inv, checking{given: given, lenient: lenient})
		},
	}
	c.Flags().StringVar(&strategy, "mig-strategy", "", "how MIG instances are advertised: none, single or mixed (default: as the config says)")
	c.Flags().BoolVar(&lenient, "lenient", false, "take configs as they are evidently meant, with warnings")
	return a.outputs(a.of(c), "table", "json")
}

// checking is how configs are checked.
type checking struct {
	given   map[string]string // flags of the device plugin
	lenient bool
}

func (a *app) check(files []string, inv nvml.Inventory, how checking) error {
	var all []checked
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read config: %w", err)
		}
		one := a.checkOne(file, data, inv, how)
		if len(one.Errors) > 0 {
			a.code = exitFindings
		}
		all = append(all, one)
	}
	if a.output == "json" {
		return a.json(struct {
			Version string    `json:"version"`
			Configs []checked `json:"configs"`
		}{"kerf.dev/config-check/v1", all})
	}
	for i, one := range all {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		a.showCheck(one, inv)
	}
	return nil
}

// checkOne does for one config what the agent does before it serves it.
func (a *app) checkOne(file string, data []byte, inv nvml.Inventory, how checking) checked {
	out := checked{File: file}
	served, err := a.apply(file, data, inv.Node(), how, &out.Warnings)
	if invalid := (*nodeconfig.InvalidError)(nil); errors.As(err, &invalid) {
		out.Errors = invalid.Lines
		return out
	}
	if err != nil {
		out.Errors = []string{file + ": " + err.Error()}
		return out
	}
	out.Sharing, out.Resources, out.MaxRequest = string(served.Kind), served.Resources, served.MaxRequest
	out.Warnings = append(out.Warnings, served.Warnings...)
	out.ways = ways(served)
	for _, u := range served.Units {
		d := checkedDevice{Index: u.Index, UUID: u.UUID, Product: inv.GPUs[u.GPU].Name, Resources: u.Resources}
		if u.Instance >= 0 {
			d.Product += " " + inv.GPUs[u.GPU].Instances[u.Instance].Profile
		}
		out.Devices = append(out.Devices, d)
	}
	return out
}

// apply decodes a config and applies it to a node's hardware.
func (a *app) apply(file string, data []byte, node gpu.Node, how checking, warnings *[]string) (gpu.Served, error) {
	cfg, more, err := nodeconfig.Decode(file, data, how.lenient)
	*warnings = append(*warnings, more...)
	if err != nil {
		return gpu.Served{}, err
	}
	if cfg, err = a.resolve(cfg, how.given); err != nil {
		return gpu.Served{}, err
	}
	return gpu.Serve(node, cfg)
}

// resolve puts the flag that changes what is advertised into a config.
func (a *app) resolve(cfg deviceconfig.Config, given map[string]string) (deviceconfig.Config, error) {
	settings, err := nodeconfig.Resolve(given, a.Env, cfg)
	cfg.Flags.MIGStrategy = settings.MIGStrategy
	return cfg, err
}

// ways says how the devices behind each resource come about.
func ways(s gpu.Served) map[string]string {
	out := map[string]string{}
	for _, u := range s.Units {
		for name := range u.Resources {
			switch {
			case u.Shared:
				out[name] = string(s.Kind)
			case u.Instance >= 0 && out[name] == "":
				out[name] = "MIG instances"
			case out[name] == "":
				out[name] = "whole GPUs"
			}
		}
		for name := range s.MaxRequest {
			if u.Shared && u.Resources[name] > 0 {
				out[name] = string(s.Kind) + ", at most 1 a container"
			}
		}
	}
	return out
}

// showCheck writes the resources, then the devices, like ones together.
func (a *app) showCheck(one checked, inv nvml.Inventory) {
	fmt.Fprintf(a.Out, "%s on %s\n", one.File, gpusOf(inv))
	var resources [][]string
	for _, name := range slices.Sorted(maps.Keys(one.Resources)) {
		resources = append(resources, []string{name, strconv.FormatInt(one.Resources[name], 10), one.ways[name]})
	}
	a.columns("  ", resources)
	a.columns("    ", fold(one.Devices))
	if len(one.Errors) == 0 && len(one.Resources) == 0 {
		fmt.Fprintln(a.Out, "  nothing is advertised")
	}
	for _, e := range one.Errors {
		fmt.Fprintf(a.Out, "  error    %s\n", strings.TrimPrefix(e, one.File+": "))
	}
	for _, warning := range one.Warnings {
		fmt.Fprintf(a.Out, "  warning  %s\n", warning)
	}
}

// columns writes rows of cells below each other.
func (a *app) columns(indent string, rows [][]string) {
	w := tabwriter.NewWriter(a.Out, 0, 0, 3, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(w, indent+strings.Join(cells, "\t"))
	}
	_ = w.Flush() // where standard output is gone there is nobody to tell
}

// gpusOf counts the GPUs of an inventory by model.
func gpusOf(inv nvml.Inventory) string {
	var parts []string
	counts := map[string]int{}
	for _, g := range inv.GPUs {
		counts[g.Name]++
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d x %s", counts[name], name))
	}
	if len(parts) == 0 {
		return "a node without GPUs"
	}
	return strings.Join(parts, ", ")
}

// fold puts devices that are alike on one row.
func fold(devices []checkedDevice) [][]string {
	var out [][]string
	for i, j := 0, 0; i < len(devices); i = j {
		d := devices[i]
		for j = i; j < len(devices) && devices[j].Product == d.Product && maps.Equal(devices[j].Resources, d.Resources); j++ {
		}
		which, each := "GPU "+d.Index, ""
		if j-i > 1 {
			which, each = "GPU "+d.Index+" .. "+devices[j-1].Index, " each"
		}
		var gives []string
		for _, name := range slices.Sorted(maps.Keys(d.Resources)) {
			gives = append(gives, fmt.Sprintf("%d x %s", d.Resources[name], name))
		}
		out = append(out, []string{which, d.Product, strings.Join(gives, ", ") + each})
	}
	return out
}
