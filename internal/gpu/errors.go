package gpu

import (
	"fmt"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// A ConfigError says that a node gets no device config, so that the plugin on
// it would not start.
type ConfigError struct {
	Name    string   // the config that is missing; "" when several are there and none is the default
	ByLabel bool     // Name comes from the node's label, else from the configured default
	Known   []string // the configs that exist, sorted
}

func (e *ConfigError) Error() string {
	switch {
	case e.Name == "":
		return fmt.Sprintf("of the device configs %s none is the default, and no label %s chooses one", strings.Join(e.Known, ", "), model.LabelDeviceConfig)
	case e.ByLabel:
		return fmt.Sprintf("label %s names the device config %q, which does not exist; %s", model.LabelDeviceConfig, e.Name, list(e.Known, "device config"))
	default:
		return fmt.Sprintf("the default device config %q does not exist; %s", e.Name, list(e.Known, "device config"))
	}
}

// A LayoutNameError says that a node's label names a MIG layout that is neither
// given nor one of those that NVIDIA's MIG manager comes with for its GPUs.
type LayoutNameError struct {
	Name  string
	Known []string // the layouts that exist, sorted
}

func (e *LayoutNameError) Error() string {
	return fmt.Sprintf("label %s names the MIG layout %q, which does not exist; %s", model.LabelMIGConfig, e.Name, list(e.Known, "MIG layout"))
}

// A LayoutError says that a GPU cannot be cut as a MIG layout asks.
type LayoutError struct {
	GPU   string // product, or the cloud's name
	Index int64  // of the GPU on its node
	Asked string // "8 x 1g.5gb"; "" when the GPU has no MIG, or no entry is for it
	Why   string
	Can   []string // what the GPU can hold: "7 x 1g.5gb", ...
}

func (e *LayoutError) Error() string {
	text := fmt.Sprintf("GPU %d (%s) %s", e.Index, e.GPU, e.Why)
	if len(e.Can) > 0 {
		text += "; it can hold " + strings.Join(e.Can, ", or ")
	}
	return text
}

// A SharingError says that the plugin refuses a config on these GPUs.
type SharingError struct {
	Resource string // the config's entry, "" when the whole config is refused
	Why      string
}

func (e *SharingError) Error() string {
	if e.Resource == "" {
		return e.Why
	}
	return e.Resource + ": " + e.Why
}

func list(names []string, what string) string {
	switch len(names) {
	case 0:
		return "no " + what + " is given"
	case 1:
		return "the only " + what + " is " + names[0]
	}
	return "there are " + strings.Join(names, ", ")
}
