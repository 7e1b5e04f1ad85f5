package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// launchSpot describes a launch as the node that it will be.
func (c *checker) launchSpot(i int) spot {
	l := &c.p.Launches[i]
	s := spot{name: fmt.Sprintf("launch %d (%s)", i, l.Type), launch: l, zones: l.Zones, new: c.valid(l.Pods), on: l.OnDevice, have: l.Allocatable, racks: l.Devices}
	t, p := c.types[l.Type], c.pools[l.Pool]
	if t == nil || p == nil {
		s.labels = map[string]string{}
		return s
	}
	ad := c.advertised(t, l.Labels)
	s.limits = ad.MaxRequest
	s.taints = p.Taints
	s.labels, s.faces = c.labelled(l, t, ad.Labels)
	return s
}

// advertised is what a node of a type gives under the config and the MIG layout
// that its labels name; nothing where they name none that exists.
func (c *checker) advertised(t *model.InstanceType, labels map[string]string) model.Advertisement {
	key := fmt.Sprintf("%q %q %q", t.Name, labels[model.LabelDeviceConfig], labels[model.LabelMIGConfig])
	ad, ok := c.ads[key]
	if !ok {
		var err error
		if ad, err = gpu.ForNode(*t, c.s.Sharing, labels); err != nil {
			ad = model.Advertisement{}
		}
		c.ads[key] = ad
	}
	return ad
}

// labelled are all labels that a launch's node will have; the zone is the
// first one's, and those in other zones are for inZone to add.
func (c *checker) labelled(l *Launch, t *model.InstanceType, found map[string]string) (map[string]string, faces) {
	key := fmt.Sprintf("%q %q %q %q", t.Name, l.CapacityType, l.Zones, l.Labels)
	if have, ok := c.labels[key]; ok {
		return have[first(l.Zones)], have
	}
	out := maps.Clone(t.Labels)
	if out == nil {
		out = map[string]string{}
	}
	if _, ok := out[model.LabelRegion]; !ok && c.s.Region != "" {
		out[model.LabelRegion] = c.s.Region
	}
	maps.Copy(out, found)
	maps.Copy(out, l.Labels)
	out[model.LabelCapacityType] = l.CapacityType
	if len(l.Zones) > 0 {
		out[model.LabelZone] = l.Zones[0]
	}
	c.labels[key] = faces{first(l.Zones): out}
	return out, c.labels[key]
}

// first is the first of zones, "" of none.
func first(zones []string) string {
	if len(zones) == 0 {
		return ""
	}
	return zones[0]
}

// launch checks an order against its pool, its type and what GPUs advertise.
func (c *checker) launch(l *Launch, s *spot) {
	t, p := c.types[l.Type], c.pools[l.Pool]
	if t == nil || p == nil {
		c.wrong("%s: type %q or pool %q does not exist", s.name, l.Type, l.Pool)
		return
	}
	if len(p.Unusable) > 0 || p.Static {
		c.wrong("%s: pool %s launches nothing for pods", s.name, p.Name)
	}
	if len(s.new) == 0 {
		c.wrong("%s: no pod is on it", s.name)
	}
	c.template(l, p, s)
	c.offered(l, t, s)
	c.advertises(l, t, p, s)
	if key := c.likeness(l, s); !c.proven[key] {
		c.proven[key] = true
		c.alternatives(l, p, s)
	}
	used := model.Resources{}
	for _, i := range s.new {
		used = used.Plus(c.s.Pods[i].Spec.Requests, 1)
	}
	if !same(used, l.Used) {
		c.wrong("%s: used is %v, its pods ask %v", s.name, l.Used, used)
	}
}

// likeness is the same for launches of one kind with pods of the same specs.
func (c *checker) likeness(l *Launch, s *spot) string {
	var specs []int
	for _, i := range s.new {
		id, ok := c.specs[c.s.Pods[i].Spec]
		if !ok {
			id = len(c.specs)
			c.specs[c.s.Pods[i].Spec] = id
		}
		specs = append(specs, id)
	}
	slices.Sort(specs)
	return fmt.Sprintf("%q %q %q %q %q %q %v", l.Pool, l.Type, l.CapacityType, l.Zones, l.Alternatives, l.Labels, specs)
}

func same(a, b model.Resources) bool { return a.Lacking(b) == "" && b.Lacking(a) == "" }

// template checks labels and requirements of the pool.
func (c *checker) template(l *Launch, p *model.Pool, s *spot) {
	for k, v := range p.Labels {
		if l.Labels[k] != v {
			c.wrong("%s: label %s is %q, the pool says %q", s.name, k, l.Labels[k], v)
		}
	}
	if l.Labels[model.LabelNodePool] != p.Name {
		c.wrong("%s: label %s does not name its pool", s.name, model.LabelNodePool)
	}
	for k := range l.Labels {
		chosen := slices.ContainsFunc(p.Requirements, func(r model.Requirement) bool { return r.Key == k })
		if _, own := p.Labels[k]; !own && !chosen && k != model.LabelNodePool && k != "karpenter.k8s.aws/ec2nodeclass" {
			c.wrong("%s: label %s is not the pool's", s.name, k)
		}
	}
	for i := range p.Requirements {
		r := &p.Requirements[i]
		for _, z := range l.Zones {
			if !holds(r, s.inZone(z)) {
				c.wrong("%s: the pool's requirement on %s does not hold in zone %q", s.name, r.Key, z)
			}
		}
	}
	if t := c.types[l.Type]; isFraction(t) && !namedBy(p, t) {
		c.wrong("%s: it has a part of a GPU, and pool %s does not name it", s.name, p.Name)
	}
}

func isFraction(t *model.InstanceType) bool {
	return slices.ContainsFunc(t.GPUs, func(g model.GPU) bool { return g.Fraction > 0 && g.Fraction < 1 })
}

func namedBy(p *model.Pool, t *model.InstanceType) bool {
	for _, suffix := range []string{"/instance-type", "/instance-family", "/instance-size"} {
		for _, r := range p.Requirements {
			if r.Operator == model.In && strings.HasSuffix(r.Key, suffix) && holds(&r, t.Labels) {
				return true
			}
		}
		for k, v := range p.Labels {
			if strings.HasSuffix(k, suffix) && t.Labels[k] == v {
				return true
			}
		}
	}
	return false
}

// offered checks that the type is sold in every zone at the price.
func (c *checker) offered(l *Launch, t *model.InstanceType, s *spot) {
	if len(l.Zones) == 0 || !slices.IsSorted(l.Zones) {
		c.wrong("%s: zones %v are none or not sorted", s.name, l.Zones)
	}
	for _, z := range l.Zones {
		if !slices.ContainsFunc(t.Offerings, func(o model.Offering) bool {
			return o.Zone == z && o.CapacityType == l.CapacityType && o.Price == l.Price && o.Estimated == l.Estimated
		}) {
			c.wrong("%s: not sold as %s in zone %q at %v", s.name, l.CapacityType, z, l.Price)
		}
	}
}

// advertises checks resources and devices against what the GPUs give under the
// config that the labels select.
func (c *checker) advertises(l *Launch, t *model.InstanceType, p *model.Pool, s *spot) {
	ad := c.advertised(t, l.Labels)
	if l.Config != ad.Config || l.Sharing != ad.Kind || len(l.Devices) != len(ad.Devices) {
		c.wrong("%s: config %q, sharing %q and %d devices are not those of its labels: %q, %q, %d",
			s.name, l.Config, l.Sharing, len(l.Devices), ad.Config, ad.Kind, len(ad.Devices))
	}
	want := c.allocatable(t, p, ad.Resources)
	for _, name := range slices.Sorted(maps.Keys(l.Allocatable)) {
		if l.Allocatable[name] > want[name] {
			c.wrong("%s: %d of %s are more than the type's %d", s.name, l.Allocatable[name], name, want[name])
		}
	}
	if l.Overhead.Lacking(c.daemons(s)) != "" {
		c.wrong("%s: overhead %v is less than what DaemonSets take", s.name, l.Overhead)
	}
}

// allocatable is what a node of a type has at most; a pool with kubelet
// settings of its own may have more than is usual, and never more than there is.
func (c *checker) allocatable(t *model.InstanceType, p *model.Pool, advertised model.Resources) model.Resources {
	from := t.Allocatable
	if k := p.Kubelet; !k.Usual() {
		from = t.Capacity.Clone()
		from[model.Pods] = max(from[model.Pods], k.MaxPods, t.Allocatable[model.Pods])
		for name, v := range t.Allocatable {
			from[name] = max(from[name], v)
		}
		nvme, _ := strconv.ParseInt(t.Labels["karpenter.k8s.aws/instance-local-nvme"], 10, 32) // GB, no label without disks
		if k.LocalDisks {
			from[model.EphemeralStorage] = max(from[model.EphemeralStorage], nvme*1e9)
		}
		from[model.EphemeralStorage] = max(from[model.EphemeralStorage], k.RootBytes)
	}
	out := model.Resources{}
	for name, v := range from {
		if !strings.HasPrefix(name, "nvidia.com/") {
			out[name] = v
		}
	}
	maps.Copy(out, advertised)
	return out
}

// alternatives checks that each holds the same pods, that they are ordered by
// price, and that minValues is met.
func (c *checker) alternatives(l *Launch, p *model.Pool, s *spot) {
	if len(l.Alternatives) == 0 || l.Alternatives[0] != l.Type {
		c.wrong("%s: alternatives do not start with its type", s.name)
		return
	}
	last := 0.0
	for i, name := range l.Alternatives {
		t := c.types[name]
		if t == nil {
			c.wrong("%s: alternative %s does not exist", s.name, name)
			return
		}
		price := cheapest(t, l)
		if i > 1 && price < last {
			c.wrong("%s: alternative %s is cheaper than the one before", s.name, name)
		}
		last = price
		if math.IsInf(price, 1) {
			c.wrong("%s: alternative %s is not sold where the node may be", s.name, name)
		}
		if i > 0 {
			c.alternative(l, p, t, s)
		}
	}
	c.minValues(l, p, s)
}

func cheapest(t *model.InstanceType, l *Launch) float64 {
	out := math.Inf(1)
	for _, o := range t.Offerings {
		if o.CapacityType == l.CapacityType && slices.Contains(l.Zones, o.Zone) {
			out = min(out, o.Price)
		}
	}
	return out
}

func (c *checker) alternative(l *Launch, p *model.Pool, t *model.InstanceType, s *spot) {
	ad := c.advertised(t, l.Labels)
	labels, faces := c.labelled(l, t, ad.Labels)
	alt := spot{
		name: s.name + " as " + t.Name, launch: l, zones: nil, labels: labels, faces: faces, taints: s.taints,
		have: c.allocatable(t, p, ad.Resources), limits: ad.MaxRequest, racks: ad.Devices, new: s.new,
	}
	for _, o := range t.Offerings {
		if o.CapacityType == l.CapacityType && slices.Contains(l.Zones, o.Zone) {
			alt.zones = append(alt.zones, o.Zone)
		}
	}
	for i := range p.Requirements {
		if len(alt.zones) > 0 && !holds(&p.Requirements[i], alt.inZone(alt.zones[0])) {
			c.wrong("%s: the pool's requirement on %s does not hold", alt.name, p.Requirements[i].Key)
		}
	}
	if isFraction(t) && !namedBy(p, t) {
		c.wrong("%s: it has a part of a GPU, and pool %s does not name it", alt.name, p.Name)
	}
	alt.launch = nil // overhead is this type's own
	c.spot(&alt)
}

func (c *checker) minValues(l *Launch, p *model.Pool, s *spot) {
	for _, r := range p.Requirements {
		if r.MinValues == 0 {
			continue
		}
		var have []string
		for _, name := range l.Alternatives {
			t := c.types[name]
			switch r.Key {
			case model.LabelZone, model.LabelCapacityType:
				for _, o := range t.Offerings {
					if o.CapacityType == l.CapacityType && slices.Contains(l.Zones, o.Zone) {
						have = append(have, map[string]string{model.LabelZone: o.Zone, model.LabelCapacityType: o.CapacityType}[r.Key])
					}
				}
			default:
				if v, ok := t.Labels[r.Key]; ok {
					have = append(have, v)
				}
			}
		}
		slices.Sort(have)
		if n := len(slices.Compact(have)); n < r.MinValues {
			c.wrong("%s: %d values of %s, and minValues is %d", s.name, n, r.Key, r.MinValues)
		}
	}
}

// limits checks what pools have with the nodes that stay and all launches.
func (c *checker) limits() {
	for i := range c.s.Pools {
		p := &c.s.Pools[i]
		if len(p.Limits) == 0 {
			continue
		}
		before, after := model.Resources{}, model.Resources{}
		for n := range c.s.Nodes {
			if node := &c.s.Nodes[n]; node.Pool == p.Name && !node.Leaving {
				before = before.Plus(c.countsAs(node), 1)
			}
		}
		launched := false
		for n := range c.p.Launches {
			if l := &c.p.Launches[n]; l.Pool == p.Name && c.types[l.Type] != nil {
				launched = true
				after = after.Plus(capacity(c.types[l.Type].Capacity, l.Allocatable), 1)
			}
		}
		for _, name := range p.Limits.Names() {
			if launched && after[name] > 0 && before[name]+after[name] > p.Limits[name] {
				c.wrong("pool %s: %d of %s with %d launched, the limit is %d", p.Name, before[name]+after[name], name, after[name], p.Limits[name])
			}
		}
	}
}

func (c *checker) countsAs(n *model.Node) model.Resources {
	if t := c.types[n.Type]; t != nil {
		return capacity(t.Capacity, n.Allocatable)
	}
	return n.Allocatable.Plus(model.Resources{model.Nodes: 1}, 1)
}

// capacity is a node's whole size, its GPUs counted as they are advertised.
func capacity(whole, allocatable model.Resources) model.Resources {
	out := model.Resources{model.Nodes: 1}
	for name, v := range whole {
		if !strings.HasPrefix(name, "nvidia.com/") {
			out[name] = v
		}
	}
	for name, v := range allocatable {
		if model.IsGPU(name) {
			out[name] = v
		}
	}
	return out
}

// sums checks the costs.
func (c *checker) sums() {
	cost, standing := 0.0, 0.0
	for i := range c.p.Launches {
		cost += c.p.Launches[i].Price
	}
	for i := range c.s.Nodes {
		if !c.s.Nodes[i].Leaving {
			standing += c.s.Nodes[i].Price
		}
	}
	if math.Abs(cost-c.p.Cost) > 1e-6*max(1, cost) {
		c.wrong("cost is %v, the launches sum up to %v", c.p.Cost, cost)
	}
	if math.Abs(standing-c.p.Standing) > 1e-6*max(1, standing) {
		c.wrong("standing cost is %v, the nodes sum up to %v", c.p.Standing, standing)
	}
}
