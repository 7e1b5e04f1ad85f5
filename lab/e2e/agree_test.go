package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/lab/world"
)

// together is how many clusters share a control plane, kept apart by labels and
// taints: a control plane costs more than a cluster.
const together = 2

// Of random clusters, KERF_CLUSTERS of them, each planned for twice: every pod
// that Kerf places is bound by the real scheduler, and the pods that it refuses
// are the ones left, and no node is ordered but those of the plan. Nothing but
// nominations tells the scheduler of the plan, and it may be quicker than one, the
// more so on a busy machine: the log names the pods.
func TestTheSchedulerAgreesWithThePlan(t *testing.T) {
	clusters := number(t, "KERF_CLUSTERS", 10)
	first := number(t, "KERF_CLUSTER", 1)
	planned, more := 0, 0
	for from := first; from < first+clusters; from += together {
		to := min(from+together, first+clusters)
		t.Run(fmt.Sprintf("clusters %d to %d", from, to-1), func(t *testing.T) {
			p, m := agree(t, from, to)
			planned, more = planned+p, more+m
		})
	}
	t.Logf("%d nodes were planned, and %d more ordered for pods whose place others took", planned, more)
	if more > 0 {
		t.Error("the scheduler does not keep to the plan")
	}
}

// number is a setting of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s; want a number", name, text)
	}
	return n
}

// agree plans for some clusters, and counts the nodes planned and those ordered
// beside them.
func agree(t *testing.T, from, to int) (planned, more int) {
	heard := &decisions{}
	s := set(t, func(c *world.Config) {
		c.Logger, c.Terse, c.Speed = logr.FromSlogHandler(heard.over(slogged)), true, 15
	})
	s.apply(read(t, "agree.yaml"))
	var clusters []*cluster
	for n := from; n < to; n++ {
		clusters = append(clusters, newCluster(n))
	}
	t.Cleanup(func() {
		for _, c := range clusters {
			if t.Failed() {
				t.Logf("KERF_CLUSTER=%d KERF_CLUSTERS=1 runs this one alone:\n%s%s", c.n, c.pools(), c.text)
			}
		}
	})
	for _, c := range clusters {
		s.apply(c.pools())
	}
	s.ready()
	for wave := 1; wave <= 2; wave++ {
		var pods []*corev1.Pod
		for _, c := range clusters {
			pods = append(pods, c.pods(wave)...)
		}
		p, m := s.wave(wave, pods, heard)
		planned, more = planned+p, more+m
	}
	return planned, more
}

// ready has a controller make all pools ready: one that is not has no nodes.
func (s *scene) ready() {
	s.Helper()
	c := s.control()
	defer c.Kill()
	s.await("pools that are ready", func() error {
		var pools karpenter.NodePoolList
		if err := s.Seen.List(s.ctx, &pools); err != nil {
			return err
		}
		for i := range pools.Items {
			if !pools.Items[i].StatusConditions().Root().IsTrue() {
				return fmt.Errorf("%s is not", pools.Items[i].Name)
			}
		}
		return nil
	})
}

// wave has the pods planned for in one decision, and compares it with what the
// scheduler does.
func (s *scene) wave(n int, pods []*corev1.Pod, heard *decisions) (planned, more int) {
	s.Helper()
	s.create(pods)
	s.await(fmt.Sprintf("wave %d: the scheduler to have looked at all pods", n), func() error {
		return s.eachPod(func(p *corev1.Pod) error {
			if p.Spec.NodeName == "" && !unschedulable(p) {
				return fmt.Errorf("pod %s/%s has not been looked at", p.Namespace, p.Name)
			}
			return nil
		})
	})
	before := heard.count()
	c := s.control()
	defer c.Kill()
	s.await(fmt.Sprintf("wave %d: a decision", n), func() error {
		if heard.count() == before {
			return fmt.Errorf("none was made")
		}
		return nil
	})
	first := heard.get(before)
	s.await(fmt.Sprintf("wave %d: all but %d pods running", n, first.unplaced), func() error {
		left, err := s.left()
		if err == nil && len(left) != first.unplaced {
			err = fmt.Errorf("%d pods do not run: %s", len(left), strings.Join(left, ", "))
		}
		return err
	})
	s.await("instances with an owner only", s.settled)
	for _, d := range heard.from(before + 1) {
		more += d.launches
	}
	if more > 0 {
		s.astray()
		s.Logf("wave %d: %d nodes were ordered beside the %d of the plan, for pods whose place others took", n, more, first.launches)
	}
	s.Timeline.Note("--- wave %d: %d pods, %d nodes ordered, %d pods refused", n, len(pods), first.launches, first.unplaced)
	return first.launches, more
}

// astray logs the pods that are not bound where they were planned, and the nodes
// that nobody planned.
func (s *scene) astray() {
	s.Helper()
	claims, err := s.Claims(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	planned, nodes := map[string]string{}, map[string]string{}
	slices.SortFunc(claims, func(a, b karpenter.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, c := range claims {
		nodes[c.Status.NodeName] = c.Name
		for _, pod := range strings.Split(c.Annotations[nodepool.AnnotationPods], ",") {
			if first, twice := planned[pod]; twice {
				s.Logf("pod %s was planned for %s, and %s was ordered for it", pod, first, c.Name)
				continue
			}
			planned[pod] = c.Name
		}
	}
	err = s.eachPod(func(p *corev1.Pod) error {
		if want, have := planned[p.Namespace+"/"+p.Name], nodes[p.Spec.NodeName]; have != "" && want != have {
			s.Logf("pod %s was planned for %s and is on %s", p.Name, want, have)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// create makes pods, several at a time.
func (s *scene) create(pods []*corev1.Pod) {
	s.Helper()
	queue := make(chan *corev1.Pod)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for p := range queue {
				if err := s.Client.Create(s.ctx, p); err != nil {
					s.Errorf("create pod %s: %v", p.Name, err)
				}
			}
		})
	}
	for _, p := range pods {
		queue <- p
	}
	close(queue)
	wg.Wait()
	if s.Failed() {
		s.FailNow()
	}
}

// eachPod goes through the pods of all namespaces but the system's, as seen.
func (s *scene) eachPod(f func(*corev1.Pod) error) error {
	var list corev1.PodList
	if err := s.Seen.List(s.ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Namespace, "kube-") {
			continue
		}
		if err := f(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// left lists the pods that do not run.
func (s *scene) left() (out []string, err error) {
	err = s.eachPod(func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodRunning {
			out = append(out, p.Namespace+"/"+p.Name)
		}
		return nil
	})
	return out, err
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// A decision is what the controller logs of one.
type decision struct {
	launches, unplaced int
	took               time.Duration
}

// decisions are those that a controller has made, read off its log.
type decisions struct {
	slog.Handler
	shared *shared
}

type shared struct {
	mu  sync.Mutex
	all []decision
}

func (d *decisions) over(h slog.Handler) slog.Handler {
	d.Handler, d.shared = h, &shared{}
	return d
}

// Enabled implements slog.Handler: decisions are heard whatever is logged.
func (d *decisions) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo-1 }

// Handle implements slog.Handler.
func (d *decisions) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "planned" {
		var out decision
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "launches":
				out.launches = int(a.Value.Resolve().Int64())
			case "unplaced":
				out.unplaced = int(a.Value.Resolve().Int64())
			case "took":
				out.took, _ = time.ParseDuration(a.Value.String()) // it is logged as text
			}
			return true
		})
		d.shared.mu.Lock()
		d.shared.all = append(d.shared.all, out)
		d.shared.mu.Unlock()
	}
	if !d.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return d.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (d *decisions) WithAttrs(a []slog.Attr) slog.Handler {
	return &decisions{d.Handler.WithAttrs(a), d.shared}
}

// WithGroup implements slog.Handler.
func (d *decisions) WithGroup(name string) slog.Handler {
	return &decisions{d.Handler.WithGroup(name), d.shared}
}

func (d *decisions) count() int { return len(d.from(0)) }

func (d *decisions) get(i int) decision { return d.from(i)[0] }

func (d *decisions) from(i int) []decision {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()
	return append([]decision(nil), d.shared.all[i:]...)
}

// A cluster is a random one: pools, and two waves of pods.
type cluster struct {
	n    int
	rand *rand.Rand
	kept string
	have []kind
	text string // the workloads, for whoever looks into a disagreement
}

// A kind of pool that a cluster may have.
type kind struct {
	name, types, labels string
	asks                []string // resources that its nodes have
}

var kindsOfPools = []kind{
	{"whole", "g4dn.xlarge, g4dn.2xlarge, g4dn.12xlarge, g5.xlarge, g5.12xlarge, g6.xlarge", "", []string{"nvidia.com/gpu: 1", "nvidia.com/gpu: 1", "nvidia.com/gpu: 2", "nvidia.com/gpu: 4"}},
	{"ten", "g4dn.xlarge, g4dn.4xlarge, g5.2xlarge, g6.12xlarge", "nvidia.com/device-plugin.config: ten", []string{"nvidia.com/gpu: 1"}},
	{"renamed", "g4dn.2xlarge, g5.xlarge, g5.4xlarge, g6.4xlarge", "nvidia.com/device-plugin.config: renamed", []string{"nvidia.com/gpu.shared: 1"}},
	{"mig", "p4d.24xlarge", "nvidia.com/device-plugin.config: mixed, nvidia.com/mig.config: balanced", []string{"nvidia.com/mig-1g.5gb: 1", "nvidia.com/mig-2g.10gb: 1", "nvidia.com/mig-3g.20gb: 1", "nvidia.com/mig-1g.5gb: 2"}},
	{"cpu", "m5.large, m5.xlarge, m5.2xlarge, m5.4xlarge", "", []string{""}},
}

func newCluster(n int) *cluster {
	c := &cluster{n: n, rand: rand.New(rand.NewPCG(uint64(n), 37))}
	for _, i := range c.rand.Perm(len(kindsOfPools))[:1+c.rand.IntN(3)] {
		c.have = append(c.have, kindsOfPools[i])
	}
	var b strings.Builder
	for i, k := range c.have {
		labels := fmt.Sprintf("lab/cluster: c%d, lab/pool: %s", n, k.name)
		if k.labels != "" {
			labels += ", " + k.labels
		}
		taints := fmt.Sprintf("{key: lab/cluster, value: c%d, effect: NoSchedule}", n)
		if c.rand.IntN(2) == 0 {
			taints += fmt.Sprintf(", {key: lab/pool, value: %s, effect: NoSchedule}", k.name)
		}
		capacity := []string{"spot", "on-demand", "spot, on-demand"}[c.rand.IntN(3)]
		fmt.Fprintf(&b, `---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: c%d-%s}
spec:
  weight: %d
  template:
    metadata: {labels: {%s}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [%s]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      taints: [%s]
      expireAfter: Never
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}
`, n, k.name, 1+(i+c.rand.IntN(2))*10, labels, k.types, capacity, taints)
	}
	c.kept = b.String()
	return c
}

// pools are the manifests of the NodePools.
func (c *cluster) pools() string { return c.kept }

// pods are one wave of workloads.
func (c *cluster) pods(wave int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range 2 + c.rand.IntN(4) {
		out = append(out, c.workload(fmt.Sprintf("c%d-w%d-%d", c.n, wave, i))...)
	}
	return out
}

// workload is a number of equal pods with at most one constraint, as people
// have them.
func (c *cluster) workload(name string) []*corev1.Pod {
	k := c.have[c.rand.IntN(len(c.have))]
	ask := k.asks[c.rand.IntN(len(k.asks))]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"app": name, "cluster": fmt.Sprintf("c%d", c.n)}}}
	p.Spec.NodeSelector = map[string]string{"lab/cluster": fmt.Sprintf("c%d", c.n)}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "lab/cluster", Operator: corev1.TolerationOpExists}}
	tolerates := c.rand.IntN(8) > 0
	if tolerates {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "lab/pool", Operator: corev1.TolerationOpExists})
	}
	if c.rand.IntN(3) > 0 || k.name == "ten" || k.name == "whole" { // "nvidia.com/gpu" means two things
		p.Spec.NodeSelector["lab/pool"] = k.name
	}
	container := corev1.Container{Name: "main", Image: "registry.example.com/work:1"}
	container.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    quantity([]string{"100m", "500m", "1", "2", "3"}[c.rand.IntN(5)]),
		corev1.ResourceMemory: quantity([]string{"128Mi", "1Gi", "4Gi", "9Gi"}[c.rand.IntN(4)]),
	}
	if resource, amount, ok := strings.Cut(ask, ": "); ok {
		container.Resources.Limits = corev1.ResourceList{corev1.ResourceName(resource): quantity(amount)}
	}
	p.Spec.Containers = []corev1.Container{container}
	how := c.constrain(p, name)
	count := 1 + c.rand.IntN(9)
	c.text += fmt.Sprintf("# %s: %d pods, %s, %v, pool %q, tolerates the pool %t, %s\n", name, count, ask, container.Resources.Requests, p.Spec.NodeSelector["lab/pool"], tolerates, how)
	var out []*corev1.Pod
	for i := range count {
		one := p.DeepCopy()
		one.Name = fmt.Sprintf("%s-%d", name, i)
		out = append(out, one)
	}
	return out
}

// constrain spreads the pods or draws them together, or neither.
func (c *cluster) constrain(p *corev1.Pod, name string) (how string) {
	mine := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	zone, host := corev1.LabelTopologyZone, corev1.LabelHostname
	term := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{LabelSelector: mine, TopologyKey: key}}
	}
	spread := func(key string, skew int32) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: mine,
		}}
	}
	switch c.rand.IntN(8) {
	case 0:
		spread(zone, 1)
		return "spread over zones"
	case 1:
		spread(host, 1+c.rand.Int32N(3))
		return "spread over nodes"
	case 2:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(host)}}
		return "one a node"
	case 3:
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(zone)}}
		return "in one zone"
	case 4:
		p.Spec.NodeSelector[zone] = []string{"us-east-1a", "us-east-1b", "us-east-1c"}[c.rand.IntN(3)]
		return "in zone " + p.Spec.NodeSelector[zone]
	default:
		return "anywhere"
	}
}
