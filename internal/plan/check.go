package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// Check says what is wrong with a plan for a Snapshot, an empty list meaning
// nothing. It knows nothing of how the plan was made and shares no code with
// whoever makes plans: it matches, counts and adds up by itself.
//
// A plan is right when every pod that needs a place has exactly one or is among
// the unplaced with a reason, pods that stay where they are stay, every node
// holds what it is given in every zone where it may come up, the constraints
// between pods hold once all are placed, pools admit and afford their launches,
// and prices and sums agree with the Snapshot.
func Check(s model.Snapshot, p Plan) []error {
	c := newChecker(&s, &p)
	c.pods()
	for i := range p.Launches {
		c.launch(&p.Launches[i], &c.spots[len(s.Nodes)+i])
	}
	c.binds()
	for i := range c.spots {
		c.spot(&c.spots[i])
	}
	c.between()
	c.limits()
	c.sums()
	return c.errs
}

// A spot is a node of the final state: one that exists and stays, or a launch.
type spot struct {
	name   string
	node   *model.Node // nil for a launch
	launch *Launch
	zones  []string // in which it may be; one for a node that exists
	labels map[string]string
	faces  faces // of a launch: its labels in each zone
	taints []model.Taint
	have   model.Resources
	limits map[string]int64
	racks  []model.Device
	stays  []int // pods that are bound and stay
	new    []int // pods that the plan puts there
	on     map[int][]int
	gone   bool // a node that leaves
}

type checker struct {
	s     *model.Snapshot
	p     *Plan
	types map[string]*model.InstanceType
	pools map[string]*model.Pool
	spots []spot // nodes, then launches
	errs  []error

	// What identical launches share is worked out once.
	ads    map[string]model.Advertisement
	labels map[string]faces
	specs  map[*model.PodSpec]int
	proven map[string]bool // launches whose alternatives were looked at
}

func newChecker(s *model.Snapshot, p *Plan) *checker {
	c := &checker{
		s: s, p: p, types: map[string]*model.InstanceType{}, pools: map[string]*model.Pool{}, ads: map[string]model.Advertisement{},
		labels: map[string]faces{}, specs: map[*model.PodSpec]int{}, proven: map[string]bool{},
	}
	for i := range s.Types {
		c.types[s.Types[i].Name] = &s.Types[i]
	}
	for i := range s.Pools {
		c.pools[s.Pools[i].Name] = &s.Pools[i]
	}
	c.spots = make([]spot, 0, len(s.Nodes)+len(p.Launches))
	for i := range s.Nodes {
		c.spots = append(c.spots, c.nodeSpot(&s.Nodes[i]))
	}
	for i := range p.Launches {
		c.spots = append(c.spots, c.launchSpot(i))
	}
	return c
}

func (c *checker) wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) nodeSpot(n *model.Node) spot {
	labels := maps.Clone(n.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	add := func(k, v string) {
		if _, ok := labels[k]; !ok && v != "" {
			labels[k] = v
		}
	}
	add(model.LabelZone, n.Zone)
	add(model.LabelCapacityType, n.CapacityType)
	add(model.LabelInstanceType, n.Type)
	add(model.LabelNodePool, n.Pool)
	add(model.LabelHostname, n.Name)
	add("metadata.name", n.Name)
	return spot{
		name: "node " + n.Name, node: n, zones: []string{labels[model.LabelZone]}, labels: labels, taints: c.lasting(n),
		have: n.Allocatable, limits: n.Limits, racks: n.Devices, gone: n.Leaving,
	}
}

// lasting drops the taints that go by themselves while a pool's node comes up.
func (c *checker) lasting(n *model.Node) []model.Taint {
	p := c.pools[n.Pool]
	if p == nil || n.Labels["karpenter.sh/initialized"] == "true" {
		return n.Taints
	}
	var out []model.Taint
	for _, t := range n.Taints {
		passing := strings.HasPrefix(t.Key, "readiness.k8s.io/") || slices.Contains([]string{
			"node.kubernetes.io/not-ready",
			"node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered",
		}, t.Key)
		for _, s := range p.StartupTaints {
			passing = passing || s.Key == t.Key && s.Effect == t.Effect
		}
		if !passing {
			out = append(out, t)
		}
	}
	return out
}

// pods checks that each pod is where it must be, once.
func (c *checker) pods() {
	byName := map[string]int{}
	for i := range c.s.Nodes {
		byName[c.s.Nodes[i].Name] = i
	}
	times := make([]int, len(c.s.Pods))
	count := func(where string, pods []int) {
		for _, i := range pods {
			if i < 0 || i >= len(times) {
				c.wrong("%s: there is no pod %d", where, i)
				continue
			}
			times[i]++
		}
		if !slices.IsSorted(pods) {
			c.wrong("%s: pods are not sorted", where)
		}
	}
	for i := range c.p.Launches {
		count(fmt.Sprintf("launch %d", i), c.p.Launches[i].Pods)
	}
	for _, b := range c.p.Binds {
		count("bind to "+b.Node, b.Pods)
	}
	for i, r := range c.p.Unplaced {
		count(fmt.Sprintf("refusal %d", i), r.Pods)
		if len(r.Verdicts) == 0 {
			c.wrong("refusal %d gives no reason", i)
		}
	}
	for i := range c.s.Pods {
		c.pod(i, times[i], byName)
	}
}

func (c *checker) pod(i, times int, byName map[string]int) {
	pod := &c.s.Pods[i]
	at, known := byName[pod.Node]
	stays := pod.Node != "" && !(known && c.s.Nodes[at].Leaving)
	if stays && known && pod.Spec != nil {
		c.spots[at].stays = append(c.spots[at].stays, i)
	}
	owned := strings.HasPrefix(pod.Owner, "DaemonSet ") || strings.HasPrefix(pod.Owner, "Node ")
	want := 1
	if stays || owned || pod.Spec == nil {
		want = 0
	}
	if times != want {
		c.wrong("pod %s/%s is in the plan %d times, not %d", pod.Namespace, pod.Name, times, want)
	}
}

func (c *checker) binds() {
	for _, b := range c.p.Binds {
		at := slices.IndexFunc(c.s.Nodes, func(n model.Node) bool { return n.Name == b.Node })
		if at < 0 {
			c.wrong("bind to %s: no such node", b.Node)
			continue
		}
		n := &c.s.Nodes[at]
		if n.Leaving || n.Unready != "" {
			c.wrong("bind to %s: the node takes no pods", b.Node)
		}
		c.spots[at].new = append(c.spots[at].new, c.valid(b.Pods)...)
		c.spots[at].on = b.OnDevice
	}
}

// valid keeps the indexes of pods that exist.
func (c *checker) valid(pods []int) []int {
	return slices.DeleteFunc(slices.Clone(pods), func(i int) bool { return i < 0 || i >= len(c.s.Pods) || c.s.Pods[i].Spec == nil })
}

// spot checks what one node is given.
func (c *checker) spot(s *spot) {
	if len(s.new) == 0 {
		return
	}
	seen := map[*model.PodSpec]bool{}
	for _, i := range s.new {
		spec := c.s.Pods[i].Spec
		if seen[spec] {
			continue
		}
		seen[spec] = true
		c.admits(s, i, spec)
	}
	c.holds(s)
	c.ports(s)
}

func (c *checker) admits(s *spot, i int, spec *model.PodSpec) {
	who := c.name(i)
	if len(spec.Refused)+len(spec.Gates)+len(spec.Claims) > 0 {
		c.wrong("%s: %s can never be placed as it is", s.name, who)
	}
	if t, ok := tolerates(spec.Tolerations, s.taints); !ok {
		c.wrong("%s: %s does not tolerate %s", s.name, who, t.Key)
	}
	for _, z := range s.zones {
		if key, ok := matchesNode(spec, s.inZone(z)); !ok {
			c.wrong("%s: %s does not match on %s in zone %q", s.name, who, key, z)
		}
	}
	for k := range spec.Containers {
		for name, limit := range s.limits {
			ct := &spec.Containers[k]
			if ask := max(ct.Requests[name], ct.Limits[name]); ask > limit {
				c.wrong("%s: a container of %s asks %d of %s, and at most %d is allowed", s.name, who, ask, name, limit)
			}
		}
	}
}

func (c *checker) name(i int) string { return "pod " + c.s.Pods[i].Namespace + "/" + c.s.Pods[i].Name }

// Faces are the labels of a launch by the zone that it comes up in.
type faces map[string]map[string]string

// inZone gives the labels of a launch as if it came up in a zone.
func (s *spot) inZone(zone string) map[string]string {
	if s.node != nil || zone == s.labels[model.LabelZone] {
		return s.labels
	}
	out, ok := s.faces[zone]
	if !ok {
		out = maps.Clone(s.labels)
		out[model.LabelZone] = zone
		if s.faces != nil {
			s.faces[zone] = out
		}
	}
	return out
}

// holds checks that the requests of a node's pods and daemons fit.
func (c *checker) holds(s *spot) {
	used := c.daemons(s)
	for _, i := range slices.Concat(s.stays, s.new) {
		for name, v := range counted(c.s.Pods[i].Spec) {
			used[name] = plus(used[name], v)
		}
	}
	packed := c.devices(s)
	for _, name := range used.Names() {
		if used[name] > s.have[name] && !packed[name] && asked(c.s, s.new, name) {
			c.wrong("%s: %d of %s are asked and %d are there", s.name, used[name], name, s.have[name])
		}
	}
}

func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + max(b, 0)
}

func asked(s *model.Snapshot, pods []int, name string) bool {
	return slices.ContainsFunc(pods, func(i int) bool { return s.Pods[i].Spec.Requests[name] > 0 })
}

// counted is what of a pod's requests counts on the node as a whole: amounts
// of device shares count on devices.
func counted(spec *model.PodSpec) model.Resources {
	if len(spec.Shares) == 0 {
		return spec.Requests
	}
	out := spec.Requests.Clone()
	for _, d := range spec.Shares {
		delete(out, d.Resource)
		for name := range d.PerDevice {
			delete(out, name)
		}
	}
	return out
}

// daemons adds up what DaemonSets take on a node: all that may run there, on
// a node that exists without those whose pod is there already.
func (c *checker) daemons(s *spot) model.Resources {
	out := model.Resources{}
	for d := range c.s.DaemonSets {
		ds := &c.s.DaemonSets[d]
		there := slices.ContainsFunc(s.stays, func(i int) bool { return c.s.Pods[i].Owner == "DaemonSet "+ds.Namespace+"/"+ds.Name })
		if there || !c.runsOn(ds.Spec, s) {
			continue
		}
		for name, v := range ds.Spec.Requests {
			out[name] = plus(out[name], v)
		}
		if s.launch != nil && !slices.Contains(s.launch.DaemonSets, ds.Namespace+"/"+ds.Name) {
			c.wrong("%s: DaemonSet %s/%s runs there and is not named", s.name, ds.Namespace, ds.Name)
		}
	}
	return out
}

func (c *checker) runsOn(spec *model.PodSpec, s *spot) bool {
	if _, ok := tolerates(spec.Tolerations, s.taints); !ok {
		return false
	}
	for name, v := range spec.Requests {
		plain := name == model.CPU || name == model.Memory || name == model.EphemeralStorage || name == model.Pods || strings.HasPrefix(name, "hugepages-")
		if v > 0 && !plain && s.have[name] <= 0 {
			return false
		}
	}
	return slices.ContainsFunc(s.zones, func(z string) bool {
		_, ok := matchesNode(spec, s.inZone(z))
		return ok
	})
}
