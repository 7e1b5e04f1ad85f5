//go:build cgo

package node

import (
	"tags.cncf.io/container-device-interface/specs-go"

	cdi "github.com/kerfdev/kerf/internal/cdi/driver"
	"github.com/kerfdev/kerf/internal/nodeconfig"
	"github.com/kerfdev/kerf/internal/nvml"
)

// driverSpecs makes CDI specs by NVIDIA's own library.
func driverSpecs() Specs {
	return func(s nodeconfig.Settings, vendor string, classes []string) ([]*specs.Spec, error) {
		library, _ := nvml.Search(s.ContainerRoot)
		return cdi.Specs(cdi.Options{
			Vendor: vendor, Library: library, ContainerRoot: s.ContainerRoot, DriverRoot: s.DriverRoot, DevRoot: s.DevRoot, Hook: s.CDIHook,
			ByIndex: s.ByIndex, FeatureFlags: s.CDIFeatureFlags, DisabledHooks: s.CDIDisableHooks, Classes: classes,
		})
	}
}
