package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/plan"
)

// A fleet is a plan as it is drawn: nodes gathered by what a buyer would call
// the same thing, then by what is in them. Tables and pictures are both made of it.
type fleet struct {
	roster
	launches []kind // in the order of the pools, dearest together first
	existing []kind
	total    tally // of the launches
	standing tally // of the existing nodes
	placed   int   // pods that the plan puts somewhere, or that sit somewhere
	rebound  int   // of those, pending pods that go on existing nodes
}

// A kind is the nodes of one pool, type, capacity type and price.
type kind struct {
	pool, typ, capacityType string
	price                   float64
	estimated               bool
	configs                 []string // device configs that its nodes select
	zones                   []string // sets of zones, as "us-east-1a|b|c"
	fillings                []filling
	tally
}

// A filling is nodes of one kind with the same pods in them.
type filling struct {
	count   int
	names   []string // of existing nodes
	zones   string
	unready string // why nothing more can go there
	config  string
	gpus    []gpu
	tenants []tenant
	cpu     use
	mem     use
}

// A use is how much of an amount is taken; Overhead is the part of Used that
// daemonsets take.
type use struct{ used, overhead, total int64 }

// A tally is what some nodes come to.
type tally struct {
	nodes     int
	gpus      int // physical
	busy      int // physical, with at least one slice taken
	slices    int
	used      int // slices
	sliced    bool
	cost      float64
	estimated int // nodes whose price is an estimate
	cpu, mem  use
	byCap     map[string]int // nodes by capacity type
}

func newFleet(r Report) fleet {
	f := fleet{roster: newRoster(r.Snapshot.Pods, r.Plan.Unplaced)}
	for _, l := range r.Plan.Launches {
		f.launches = f.add(f.launches, launchKind(l), f.launched(r.Snapshot, l))
	}
	f.placed = len(r.Snapshot.Pods)
	for _, u := range r.Plan.Unplaced {
		f.placed -= len(u.Pods)
	}
	f.addExisting(r)
	f.launches = arrange(f.launches, r.Snapshot.Pools)
	f.existing = arrange(f.existing, r.Snapshot.Pools)
	for _, k := range f.launches {
		f.total.plus(k.tally)
	}
	for _, k := range f.existing {
		f.standing.plus(k.tally)
	}
	return f
}

func launchKind(l plan.Launch) kind {
	return kind{pool: l.Pool, typ: l.Type, capacityType: l.CapacityType, price: l.Price, estimated: l.Estimated}
}

func (f *fleet) launched(s model.Snapshot, l plan.Launch) filling {
	return filling{
		count:   1,
		zones:   zonesOf(l.Zones),
		config:  l.Config,
		gpus:    seat(l.Devices, l.Pods, s.Pods, f.of, l.OnDevice),
		tenants: f.tenants(l.Pods),
		cpu:     use{l.Used[model.CPU] + l.Overhead[model.CPU], l.Overhead[model.CPU], l.Allocatable[model.CPU]},
		mem:     use{l.Used[model.Memory] + l.Overhead[model.Memory], l.Overhead[model.Memory], l.Allocatable[model.Memory]},
	}
}

// addExisting adds the nodes that exist with the pods bound to them and those
// that the plan binds.
func (f *fleet) addExisting(r Report) {
	on := map[string][]int{}
	for i, p := range r.Snapshot.Pods {
		if p.Node != "" {
			on[p.Node] = append(on[p.Node], i)
		}
	}
	devices := map[string]map[int][]int{}
	for _, b := range r.Plan.Binds {
		on[b.Node] = append(on[b.Node], b.Pods...)
		devices[b.Node] = b.OnDevice
		f.rebound += len(b.Pods)
	}
	for _, n := range r.Snapshot.Nodes {
		k := kind{pool: n.Pool, typ: n.Type, capacityType: n.CapacityType, price: n.Price}
		f.existing = f.add(f.existing, k, f.standingNode(r.Snapshot, n, on[n.Name], devices[n.Name]))
	}
}

func (f *fleet) standingNode(s model.Snapshot, n model.Node, pods []int, onDevice map[int][]int) filling {
	unready := n.Unready
	if n.Leaving && unready == "" {
		unready = "leaving"
	}
	out := filling{
		count: 1, names: []string{n.Name}, zones: n.Zone, unready: unready,
		gpus:    seat(n.Devices, pods, s.Pods, f.of, onDevice),
		tenants: f.tenants(pods),
		cpu:     use{total: n.Allocatable[model.CPU]},
		mem:     use{total: n.Allocatable[model.Memory]},
	}
	for _, i := range pods {
		if spec := s.Pods[i].Spec; spec != nil {
			out.cpu.used += spec.Requests[model.CPU]
			out.mem.used += spec.Requests[model.Memory]
		}
	}
	return out
}

// add puts one node into its kind, and there into its filling.
func (f *fleet) add(kinds []kind, k kind, n filling) []kind {
	at := slices.IndexFunc(kinds, func(o kind) bool {
		return o.pool == k.pool && o.typ == k.typ && o.capacityType == k.capacityType && o.price == k.price && o.estimated == k.estimated
	})
	if at < 0 {
		kinds = append(kinds, k)
		at = len(kinds) - 1
	}
	kinds[at].put(n)
	return kinds
}

func (k *kind) put(n filling) {
	k.tally.plus(n.tally(*k))
	if n.zones != "" && !slices.Contains(k.zones, n.zones) {
		k.zones = append(k.zones, n.zones)
	}
	if n.config != "" && !slices.Contains(k.configs, n.config) {
		k.configs = append(k.configs, n.config)
	}
	for i := range k.fillings {
		if k.fillings[i].like(n) {
			k.fillings[i].count++
			k.fillings[i].names = append(k.fillings[i].names, n.names...)
			return
		}
	}
	k.fillings = append(k.fillings, n)
}

// like says whether two nodes would be drawn alike.
func (n filling) like(o filling) bool {
	return n.cpu == o.cpu && n.mem == o.mem && n.unready == o.unready && n.config == o.config &&
		slices.Equal(n.tenants, o.tenants) &&
		slices.EqualFunc(n.gpus, o.gpus, func(a, b gpu) bool {
			return a.model == b.model && slices.Equal(a.slices, b.slices) && slices.Equal(a.shares, b.shares)
		})
}

func (n filling) tally(k kind) tally {
	t := tally{nodes: 1, gpus: len(n.gpus), cost: k.price, cpu: n.cpu, mem: n.mem, byCap: map[string]int{k.capacityType: 1}}
	if k.estimated {
		t.estimated = 1
	}
	for _, g := range n.gpus {
		if g.used() > 0 {
			t.busy++
		}
		t.slices += g.size()
		t.used += g.used()
		t.sliced = t.sliced || len(g.slices) > 1
	}
	return t
}

func (t *tally) plus(o tally) {
	t.nodes += o.nodes
	t.gpus += o.gpus
	t.busy += o.busy
	t.slices += o.slices
	t.used += o.used
	t.sliced = t.sliced || o.sliced
	t.cost += o.cost
	t.estimated += o.estimated
	t.cpu = t.cpu.plus(o.cpu)
	t.mem = t.mem.plus(o.mem)
	if t.byCap == nil {
		t.byCap = map[string]int{}
	}
	for c, n := range o.byCap {
		t.byCap[c] += n
	}
}

func (u use) plus(o use) use {
	return use{u.used + o.used, u.overhead + o.overhead, u.total + o.total}
}

// arrange orders kinds by pool as the pools were read, in a pool by what they
// cost together, and fillings by how many and how full.
func arrange(kinds []kind, pools []model.Pool) []kind {
	rank := map[string]int{}
	for i, p := range pools {
		rank[p.Name] = i - len(pools)
	}
	slices.SortStableFunc(kinds, func(a, b kind) int {
		return cmp.Or(
			cmp.Compare(rank[a.pool], rank[b.pool]),
			strings.Compare(a.pool, b.pool),
			cmp.Compare(b.cost, a.cost),
			cmp.Compare(b.nodes, a.nodes),
			strings.Compare(a.typ, b.typ),
			strings.Compare(a.capacityType, b.capacityType),
			cmp.Compare(b.price, a.price),
		)
	})
	for _, k := range kinds {
		slices.SortStableFunc(k.fillings, func(a, b filling) int {
			return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.taken(), a.taken()), cmp.Compare(b.cpu.used, a.cpu.used))
		})
	}
	return kinds
}

// taken is how many slices of a node are in use.
func (n filling) taken() int {
	t := 0
	for _, g := range n.gpus {
		t += g.used()
	}
	return t
}

// slots is how many slices a node has.
func (n filling) slots() int {
	t := 0
	for _, g := range n.gpus {
		t += g.size()
	}
	return t
}

// gpuLabel names the GPUs of a node: "T4", "4×A10G", "A100 + L4".
func (n filling) gpuLabel() string {
	var parts []string
	for i := 0; i < len(n.gpus); {
		j := i
		for j < len(n.gpus) && n.gpus[j].model == n.gpus[i].model {
			j++
		}
		if j-i > 1 {
			parts = append(parts, fmt.Sprintf("%d×%s", j-i, n.gpus[i].model))
		} else {
			parts = append(parts, n.gpus[i].model)
		}
		i = j
	}
	return strings.Join(parts, " + ")
}
