package install

import (
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// Offers works out from device configs what one container is granted, and adds
// what they make of a GPU to what nodes have. Without nodes and configs, what is
// offered is not known (nil).
func Offers(s model.Sharing, nodes map[string]bool) (most map[string]int64, offered map[string]bool) {
	if len(s.Configs) == 0 {
		return nil, nodes
	}
	offered = map[string]bool{model.NvidiaGPU: true, guard.AnySlice: len(nodes) == 0 || len(s.MIG) > 0}
	for name := range nodes {
		offered[name] = true
	}
	most = map[string]int64{}
	free := map[string]bool{} // what some config grants any number of
	for _, config := range s.Configs {
		got, err := gpu.Advertise([]model.GPU{{Manufacturer: "nvidia", Model: "a100", Count: 1, Fraction: 1}}, config, nil)
		if err != nil {
			continue
		}
		for name := range got.Resources {
			offered[name] = true
			if n, limited := got.MaxRequest[name]; limited {
				most[name] = max(most[name], n)
			} else {
				free[name] = true
			}
		}
	}
	for name := range free {
		delete(most, name)
	}
	if s.Default == "" && len(s.Configs) > 1 {
		delete(most, model.NvidiaGPU) // nodes without a label share nothing
	}
	return most, offered
}
