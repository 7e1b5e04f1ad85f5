//go:build cgo

// Package driver makes the CDI specs of a machine with NVIDIA's driver, by
// NVIDIA's own library (nvidia-container-toolkit, pkg/nvcdi). That library
// reaches NVML through cgo, which is why it has a package to itself.
package driver

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform/root"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Options say where things are. Roots are those of NVIDIA's device plugin.
type Options struct {
	Vendor        string // of the kinds: "k8s.device-plugin.nvidia.com"
	Library       string // libnvidia-ml.so.1, as the linker finds it
	ContainerRoot string // of the driver, as this process sees it
	DriverRoot    string // of the driver on the host
	DevRoot       string // of the device nodes on the host
	Hook          string // nvidia-cdi-hook or nvidia-ctk, on the host
	ByIndex       bool   // devices are named by index and not by UUID
	FeatureFlags  []string
	DisabledHooks []string
	Classes       []string // beside gpu: gdrcopy, gds, mofed, imex-channel
}

// Specs returns a spec for the GPUs and one for each further class.
func Specs(o Options) ([]*specs.Spec, error) {
	namer, err := nvcdi.NewDeviceNamer(strategy(o.ByIndex))
	if err != nil {
		return nil, fmt.Errorf("name CDI devices: %w", err)
	}
	driver, dev := o.roots()
	common := []nvcdi.Option{
		nvcdi.WithNvmlLib(nvml.New(nvml.WithLibraryPath(o.Library))),
		nvcdi.WithVendor(o.Vendor), nvcdi.WithDeviceNamers(namer),
		nvcdi.WithDriverRoot(driver), nvcdi.WithDevRoot(dev), nvcdi.WithNVIDIACDIHookPath(o.Hook),
		nvcdi.WithFeatureFlags(o.FeatureFlags...), nvcdi.WithDisabledHooks(o.DisabledHooks...),
	}
	var out []*specs.Spec
	for _, class := range append([]string{"gpu"}, o.Classes...) {
		lib, err := nvcdi.New(append(slices.Clone(common), nvcdi.WithClass(class), nvcdi.WithMode(mode(class)))...)
		if err != nil {
			return nil, fmt.Errorf("CDI devices of class %s: %w", class, err)
		}
		made, err := lib.GetSpec()
		if err != nil {
			return nil, fmt.Errorf("CDI devices of class %s: %w", class, err)
		}
		raw := made.Raw()
		if err := o.toHost(raw, driver, dev); err != nil {
			return nil, fmt.Errorf("CDI devices of class %s: paths of the host: %w", class, err)
		}
		out = append(out, raw)
	}
	return out, nil
}

// roots are where this process finds the driver and its device nodes. A root
// without a dev folder leaves those to this process's own.
func (o Options) roots() (driver, dev string) {
	driver, dev = o.ContainerRoot, "/"
	if !isDir(driver) {
		driver = "/"
	}
	if isDir(filepath.Join(driver, "dev")) {
		dev = driver
	}
	return driver, dev
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// toHost rewrites the host's side of paths from what this process sees.
func (o Options) toHost(s *specs.Spec, driver, dev string) error {
	move := func(nodes []*specs.DeviceNode) {
		for _, n := range nodes {
			at := cmp.Or(n.HostPath, n.Path)
			if rest, ok := strings.CutPrefix(at, filepath.Join(dev, "dev")+"/"); ok {
				n.HostPath = filepath.Join(o.DevRoot, "dev", rest)
			}
		}
	}
	move(s.ContainerEdits.DeviceNodes)
	for i := range s.Devices {
		move(s.Devices[i].ContainerEdits.DeviceNodes)
	}
	if driver == "/" {
		return nil // this process sees the host as it is
	}
	return root.New(root.WithRoot(driver), root.WithTargetRoot(o.DriverRoot), root.WithRelativeTo("host")).Transform(s)
}

func strategy(byIndex bool) string {
	if byIndex {
		return nvcdi.DeviceNameStrategyIndex
	}
	return nvcdi.DeviceNameStrategyUUID
}

// mode is how the library finds the devices of a class.
func mode(class string) nvcdi.Mode {
	switch class {
	case "gpu":
		return nvcdi.ModeAuto
	case "imex-channel":
		return nvcdi.ModeImex
	}
	return nvcdi.Mode(class)
}
