package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/kerfdev/kerf/internal/cdi"
	"github.com/kerfdev/kerf/internal/deviceplugin"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

// Specs makes the CDI specs of a machine with a real driver: those of the GPUs
// and of the classes beside them.
type Specs func(s nodeconfig.Settings, vendor string, classes []string) ([]*specs.Spec, error)

// strategies decides how containers get their devices. Where nothing is asked
// for, it is CDI if kubelet and runtime take it, since then no image can help
// itself to GPUs by a variable; else the variable that NVIDIA's plugin uses.
func strategies(s nodeconfig.Settings, node nodeconfig.Node) []string {
	switch {
	case len(s.ListStrategies) > 0:
		return s.ListStrategies
	case takesCDI(node):
		return []string{deviceplugin.CDICRI}
	}
	return []string{deviceplugin.EnvVar}
}

// takesCDI reports whether a node's kubelet passes CDI devices on (on by default
// since Kubernetes 1.29) and its runtime injects them without being configured
// (containerd since 2.0, CRI-O since 1.28).
func takesCDI(n nodeconfig.Node) bool {
	name, version, _ := strings.Cut(n.Runtime, "://")
	if !atLeast(n.Kubelet, 1, 29) {
		return false
	}
	switch name {
	case "containerd":
		return atLeast(version, 2, 0)
	case "cri-o":
		return atLeast(version, 1, 28)
	}
	return false
}

// atLeast compares a version such as "v1.37.2" or "2.1.4-k3s1".
func atLeast(version string, major, minor int) bool {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return false
	}
	first, err := strconv.Atoi(parts[0])
	second, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (first > major || first == major && second >= minor)
}

// writeSpecs puts the CDI specs of the node where runtimes look.
func (a *agent) writeSpecs(s nodeconfig.Settings, inv nvml.Inventory) error {
	var all []*specs.Spec
	if a.Specs == nil {
		all = []*specs.Spec{cdi.Plain(cdiDevices(inv, s.ByIndex), s.DevRoot, existsBelow(s.ContainerRoot))}
	} else {
		var err error
		if all, err = a.Specs(s, deviceplugin.CDIVendor, classes(s)); err != nil {
			return fmt.Errorf("make the CDI specs: %w", err)
		}
	}
	files, err := cdi.Write(a.CDIDir, all...)
	if err != nil {
		return err
	}
	a.Log.Info("CDI specs written", "files", files)
	return nil
}

// classes are the kinds of devices beside GPUs that containers get.
func classes(s nodeconfig.Settings) []string {
	var out []string
	for _, c := range []struct {
		name string
		on   bool
	}{{"gdrcopy", s.GDRCopy}, {"gds", s.GDS}, {"mofed", s.MOFED}, {"imex-channel", len(s.IMEXChannels) > 0}} {
		if c.on {
			out = append(out, c.name)
		}
	}
	return out
}

// cdiDevices lists every GPU and MIG instance: what is served of them changes
// more often than they do.
func cdiDevices(inv nvml.Inventory, byIndex bool) []cdi.Device {
	name := func(uuid, index string) string {
		if byIndex {
			return index
		}
		return uuid
	}
	var out []cdi.Device
	for i, g := range inv.GPUs {
		index := strconv.Itoa(g.Index)
		out = append(out, cdi.Device{Name: name(g.UUID, index), Paths: inv.Paths(i, -1)})
		for j, in := range g.Instances {
			out = append(out, cdi.Device{Name: name(in.UUID, index+":"+strconv.Itoa(in.Index)), Paths: inv.Paths(i, j)})
		}
	}
	return out
}

// existsBelow looks for device nodes in the driver's root, or in this
// process's own when that has none.
func existsBelow(root string) func(string) bool {
	if info, err := os.Stat(filepath.Join(root, "dev")); err != nil || !info.IsDir() {
		root = "/"
	}
	return func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
}
