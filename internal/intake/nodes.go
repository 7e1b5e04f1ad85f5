package intake

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
)

// nodes completes the nodes that exist by what the catalogue and the device
// configs know of them, adds the NodeClaims that have not become nodes yet, and
// keeps for those the pods that they were made for.
func (l *loader) nodes() {
	arrived := map[string]int{}
	for i := range l.snapshot.Nodes {
		n := &l.snapshot.Nodes[i]
		arrived[n.Name] = i
		l.join(n)
	}
	for i, claim := range l.pool.Claims {
		o := l.pool.Origins[i]
		at, ok := arrived[o.NodeName]
		if !ok {
			l.predict(&claim, o)
			l.snapshot.Nodes = append(l.snapshot.Nodes, claim)
			continue
		}
		n := &l.snapshot.Nodes[at]
		if n.Leaving = n.Leaving || claim.Leaving; !n.Leaving && l.comes(o) {
			*n = l.incoming(*n, claim, o)
		}
	}
	byName := map[string]*model.Node{}
	for i := range l.snapshot.Nodes {
		byName[l.snapshot.Nodes[i].Name] = &l.snapshot.Nodes[i]
	}
	reserve(l.snapshot.Pods, byName, l.reserved(byName, l.pool.Origins, l.pool.Claims))
}

// join adds the price and the request rule of a node that exists.
func (l *loader) join(n *model.Node) {
	t, known := l.types.Type(n.Type)
	if known {
		n.Price = priceOf(t, n.Zone, n.CapacityType)
	}
	if n.Price == 0 {
		l.unpriced(*n, known)
	}
	if !slices.ContainsFunc(n.Allocatable.Names(), model.IsGPU) {
		return
	}
	if bare, err := gpu.Advertise(t.GPUs, deviceconfig.Config{}, nil); err == nil && len(bare.Devices) > 0 {
		models := make([]string, len(bare.Devices))
		for i, d := range bare.Devices {
			models[i] = d.Model
		}
		n.Devices = model.SplitDevices(models, gpusOf(*n))
	} else {
		t.GPUs = []model.GPU{{Manufacturer: "nvidia", Count: max(1, int64(len(n.Devices))), Fraction: 1}}
	}
	ad, err := gpu.ForNode(t, l.snapshot.Sharing, n.Labels)
	if err != nil {
		return // the checks name it
	}
	n.Limits = ad.MaxRequest
	if len(ad.Devices) != len(n.Devices) {
		return
	}
	asPlanned := maps.Equal(ad.Resources, gpusOf(*n))
	n.Devices = slices.Clone(n.Devices)
	for i, d := range ad.Devices {
		n.Devices[i].Shares = d.Shares
		if asPlanned {
			n.Devices[i].Resources = d.Resources
		}
	}
}

// gpusOf is what a node reports of GPUs.
func gpusOf(n model.Node) model.Resources {
	out := model.Resources{}
	for name, v := range n.Allocatable {
		if model.IsGPU(name) {
			out[name] = v
		}
	}
	return out
}

// consumable says that GPUs are handed out in parts when a pod asks for a part.
func (l *loader) consumable() {
	i := slices.IndexFunc(l.snapshot.Pods, func(p model.Pod) bool { return len(p.Spec.Shares) > 0 })
	if i < 0 {
		return
	}
	l.snapshot.Sharing.Consumable = true
	l.note(model.Info, "assumed-parts", l.snapshot.Pods[i].Spec.Place,
		"pods ask for parts of a GPU's memory or compute: the cluster is taken to hand out every GPU that no device config shares in such parts, as HAMi does; how many pods HAMi lets on one GPU (deviceSplitCount, 10 by default) is not counted", "")
}

func (l *loader) unpriced(n model.Node, known bool) {
	why := "its type is not labelled"
	switch {
	case known:
		why = n.Type + " has no " + n.CapacityType + " price in " + l.types.Region
	case n.Type != "":
		why = "the type " + n.Type + " is not in the book of " + l.types.Region
	}
	l.note(model.Info, "node-price", n.Place, fmt.Sprintf("the price of node %s is not known and counts as 0: %s", n.Name, why), "")
}

// priceOf is what a node of the type costs where it runs. A node that does not
// say is on demand; one whose zone is not known costs what the cheapest zone does.
func priceOf(t model.InstanceType, zone, capacity string) float64 {
	if capacity == "" || capacity == model.Reserved {
		capacity = model.OnDemand
	}
	cheapest := 0.0
	for _, o := range t.Offerings {
		if o.CapacityType != capacity {
			continue
		}
		if o.Zone == zone {
			return o.Price
		}
		if cheapest == 0 {
			cheapest = o.Price
		}
	}
	return cheapest
}

// predict says what a node that has been ordered will offer. What its claim
// reports counts, except for GPUs, which no claim knows before the plugin runs.
func (l *loader) predict(n *model.Node, o nodepool.Origin) {
	t, known := l.types.Type(n.Type)
	if known {
		*n = l.asType(*n, t, o)
		return
	}
	if n.Type == "" {
		if least, ok := l.least(n, o); ok {
			n.Allocatable, n.Devices, n.Limits, n.Price = least.Allocatable, least.Devices, least.Limits, least.Price
			return
		}
	}
	if n.Unready == "" && len(n.Allocatable) == 0 {
		n.Unready = "its instance type is not known yet"
	}
}

// merged is base with over's entries in place of its own.
func merged(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	for k, v := range base {
		out[k] = v
	}
	for k, v := range over {
		out[k] = v
	}
	return out
}
