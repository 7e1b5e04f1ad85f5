package workload

import (
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kerfdev/kerf/internal/model"
)

// containersOf lists the containers of a pod, then its init containers.
func containersOf(spec *corev1.PodSpec) []*corev1.Container {
	out := make([]*corev1.Container, 0, len(spec.Containers)+len(spec.InitContainers))
	for i := range spec.Containers {
		out = append(out, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		out = append(out, &spec.InitContainers[i])
	}
	return out
}

// containerPath is the field path of the i-th of containersOf.
func containerPath(spec *corev1.PodSpec, base string, i int) string {
	if n := len(spec.Containers); i >= n {
		return base + ".initContainers[" + strconv.Itoa(i-n) + "]"
	}
	return base + ".containers[" + strconv.Itoa(i) + "]"
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// podRequests is what the scheduler of Kubernetes 1.37 counts for a pod: the
// containers with the sidecars, or the hungriest moment of the init containers
// when that is more; pod-level cpu, memory and hugepages instead where given;
// then the overhead of the runtime class.
func podRequests(spec *corev1.PodSpec, overhead bool) corev1.ResourceList {
	out := requestsOf(spec)
	if spec.Resources != nil {
		override(out, spec.Resources.Requests)
	}
	if overhead {
		addTo(out, spec.Overhead)
	}
	return out
}

// podLimits is the same for limits, without overhead.
func podLimits(spec *corev1.PodSpec) corev1.ResourceList {
	out := limitsOf(spec)
	if spec.Resources != nil {
		override(out, spec.Resources.Limits)
	}
	return out
}

// requestsOf and limitsOf add up what the containers say.
func requestsOf(spec *corev1.PodSpec) corev1.ResourceList {
	return aggregate(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
}

func limitsOf(spec *corev1.PodSpec) corev1.ResourceList {
	return aggregate(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
}

// aggregate adds up the containers. While an init container runs, the sidecars
// that were started before it run beside it.
func aggregate(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range spec.Containers {
		addTo(sum, of(&spec.Containers[i]))
	}
	if len(spec.InitContainers) == 0 {
		return sum
	}
	sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if isSidecar(c) {
			addTo(sum, of(c))
			addTo(sidecars, of(c))
			raiseTo(peak, sidecars)
			continue
		}
		now := maps.Clone(sidecars)
		addTo(now, of(c))
		raiseTo(peak, now)
	}
	raiseTo(sum, peak)
	return sum
}

func addTo(sum, list corev1.ResourceList) {
	for name, q := range list {
		if total, ok := sum[name]; ok {
			total.Add(q)
			sum[name] = total
			continue
		}
		sum[name] = q.DeepCopy()
	}
}

func raiseTo(floor, list corev1.ResourceList) {
	for name, q := range list {
		if least, ok := floor[name]; !ok || q.Cmp(least) > 0 {
			floor[name] = q.DeepCopy()
		}
	}
}

func override(out, list corev1.ResourceList) {
	for name, q := range list {
		if podLevel(name) {
			out[name] = q.DeepCopy()
		}
	}
}

// podLevel reports whether Kubernetes 1.37 takes a resource at pod level.
func podLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePage(string(name))
}

func isHugePage(name string) bool { return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) }

// most is the largest amount of anything that is told apart: 2^50 bytes or
// units are more than any node has, and sums of it do not overflow.
const most = 1 << 50

var (
	mostUnits = resource.NewQuantity(most, resource.DecimalSI)
	mostMilli = resource.NewMilliQuantity(most, resource.DecimalSI)
)

// amount is a quantity in the model's unit: cpu in thousandths, all else whole
// and rounded up.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	switch {
	case name == corev1.ResourceCPU && q.Cmp(*mostMilli) > 0, q.Cmp(*mostUnits) > 0:
		return most
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	default:
		return q.Value()
	}
}

// resources converts a list; nil stays nil. Negative amounts count as none:
// validation has refused them.
func resources(list corev1.ResourceList) model.Resources {
	if len(list) == 0 {
		return nil
	}
	out := make(model.Resources, len(list)+1)
	for name, q := range list {
		out[string(name)] = max(0, amount(name, q))
	}
	return out
}
