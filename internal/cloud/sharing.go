package cloud

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/catalog"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// Shared is a CloudProvider that counts GPUs as nodes will advertise them.
// Everything else is the wrapped provider's.
type Shared struct {
	cloudprovider.CloudProvider
	configs Configs
	book    catalog.Book

	mu    sync.Mutex
	of    *Installation // what the memory below was made under
	ads   map[adKey]advertised
	types map[typeKey]*decorated
	pools map[string]poolTypes
}

// poolTypes are a pool's types and what they were made from.
type poolTypes struct {
	key   poolKey
	types []*cloudprovider.InstanceType
}

// poolKey tells whether a pool's types would still be the same. A provider that
// has changed any type has made them all anew.
type poolKey struct {
	under       *Installation
	uid         types.UID
	generation  int64
	count       int
	first, last *cloudprovider.InstanceType
}

// adKey is what decides what a node advertises: its type and two labels.
type adKey struct{ kind, config, layout string }

func keyOf(t *cloudprovider.InstanceType, labels map[string]string) adKey {
	return adKey{t.Name, labels[model.LabelDeviceConfig], labels[model.LabelMIGConfig]}
}

// advertised is the answer of gpu.ForNode; empty where it refuses the config.
type advertised struct {
	ad       model.Advertisement
	fraction bool // the type holds a part of a GPU
}

// typeKey is what decides how a type of the wrapped provider changes.
type typeKey struct {
	ad     adKey
	hidden bool // its fraction of a GPU does not count
}

// decorated keeps what is worth keeping of a changed type: its requirements
// under those that they were made from.
type decorated struct {
	from scheduling.Requirements
	to   scheduling.Requirements
}

// discovery lists the labels of NVIDIA's feature discovery by which pods select
// nodes, as far as they follow from the hardware and the config. Karpenter
// keeps pods that select one off every node, unless the types say that they
// will have it (kubernetes-sigs/karpenter#1219).
var discovery = []string{
	"nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas", "nvidia.com/gpu.family",
	"nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor", "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.capable",
	"nvidia.com/mig.strategy", "nvidia.com/mps.capable", "nvidia.com/vgpu.present",
}

// Sharing wraps a provider. The book says which GPUs the types have; a type
// that it does not know is taken by the labels karpenter.k8s.aws/instance-gpu-*.
// As NewSimulated, it tells Karpenter's library of labels, those of feature
// discovery, and the first one of a process must not be made while controllers
// run.
func Sharing(provider cloudprovider.CloudProvider, configs Configs, book catalog.Book) *Shared {
	know(discovery...)
	return &Shared{CloudProvider: provider, configs: configs, book: book, pools: map[string]poolTypes{}}
}

// GetInstanceTypes returns the wrapped provider's types with the GPU resources
// that nodes of the pool will advertise, and the labels that feature discovery
// will set. A fraction of a GPU (g6f, gr6f) counts only in pools that name its
// type, family or size, since a pod that asks for a GPU means a whole one.
// Where the config is refused, the nodes would advertise nothing, and so do the
// types.
func (s *Shared) GetInstanceTypes(ctx context.Context, pool *karpenter.NodePool) ([]*cloudprovider.InstanceType, error) {
	types, err := s.CloudProvider.GetInstanceTypes(ctx, pool)
	if err != nil {
		return nil, err
	}
	now, err := s.configs.Current(ctx)
	if err != nil {
		return nil, fmt.Errorf("read device configs: %w", err)
	}
	if pool == nil || len(types) == 0 {
		return s.decorate(ctx, now, types, template{}), nil
	}
	key := poolKey{now, pool.UID, pool.Generation, len(types), types[0], types[len(types)-1]}
	s.mu.Lock()
	kept := s.pools[pool.Name]
	s.mu.Unlock()
	if kept.key != key || pool.UID == "" {
		kept = poolTypes{key, s.decorate(ctx, now, types, templateOf(pool.Spec.Template.Labels, pool.Spec.Template.Spec.Requirements))}
		s.mu.Lock()
		s.pools[pool.Name] = kept
		s.mu.Unlock()
	}
	return slices.Clone(kept.types), nil
}

// A template is what of a pool or claim decides how its types change.
type template struct {
	labels map[string]string // that nodes will have
	wants  scheduling.Requirements
}

func templateOf(labels map[string]string, requirements []karpenter.NodeSelectorRequirementWithMinValues) template {
	wants := scheduling.NewNodeSelectorRequirementsWithMinValues(requirements...)
	return template{settled(labels, wants), wants}
}

// decorate is the types as nodes of the template will be.
func (s *Shared) decorate(ctx context.Context, now *Installation, types []*cloudprovider.InstanceType, of template) []*cloudprovider.InstanceType {
	out := make([]*cloudprovider.InstanceType, len(types))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range types {
		out[i] = s.one(ctx, now, t, of)
	}
	return out
}

// settled are the labels that a node will have: those given and those that
// requirements leave no choice about.
func settled(labels map[string]string, wants scheduling.Requirements) map[string]string {
	out := maps.Clone(labels)
	if out == nil {
		out = map[string]string{}
	}
	for _, key := range []string{model.LabelDeviceConfig, model.LabelMIGConfig} {
		if r, ok := wants[key]; ok && out[key] == "" && r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
			out[key] = r.Any()
		}
	}
	return out
}

// names reports whether the template names a type, its family or size.
func (of template) names(t *cloudprovider.InstanceType) bool {
	for key, r := range t.Requirements {
		if key != model.LabelInstanceType && !strings.HasSuffix(key, "/instance-family") && !strings.HasSuffix(key, "/instance-size") || r.Len() != 1 {
			continue
		}
		if w, ok := of.wants[key]; ok && w.Operator() == corev1.NodeSelectorOpIn && w.Has(r.Any()) || of.labels[key] == r.Any() {
			return true
		}
	}
	return false
}

// one is one type as nodes of the template will be. The caller holds the lock.
func (s *Shared) one(ctx context.Context, now *Installation, t *cloudprovider.InstanceType, of template) *cloudprovider.InstanceType {
	a := s.advertise(ctx, now, t, of.labels)
	hidden := a.fraction && !of.names(t)
	if hidden {
		a = advertised{}
	}
	out := &cloudprovider.InstanceType{
		Name: t.Name, Offerings: t.Offerings, Overhead: t.Overhead, VolumeAttachmentLimits: t.VolumeAttachmentLimits,
		DynamicResources: t.DynamicResources, Capacity: t.Capacity,
		Requirements: s.described(t, a.ad.Labels, typeKey{keyOf(t, of.labels), hidden}),
	}
	if counts(t.Capacity) || len(a.ad.Resources) > 0 {
		out.Capacity = WithGPUs(t.Capacity, a.ad.Resources)
	}
	if t.IsCapacityOverlayApplied() {
		out.ApplyCapacityOverlay(nil)
	}
	return out
}

// described are a type's requirements with the labels of feature discovery.
func (s *Shared) described(t *cloudprovider.InstanceType, labels map[string]string, key typeKey) scheduling.Requirements {
	if d := s.types[key]; d != nil && reflect.ValueOf(d.from).Pointer() == reflect.ValueOf(t.Requirements).Pointer() {
		return d.to
	}
	to := maps.Clone(t.Requirements)
	for _, key := range discovery {
		if v, ok := labels[key]; ok {
			to[key] = in(key, v)
		} else {
			to[key] = absent(key)
		}
	}
	s.types[key] = &decorated{t.Requirements, to}
	return to
}

// advertise asks gpu.ForNode, once for all nodes that it would answer alike.
func (s *Shared) advertise(ctx context.Context, now *Installation, t *cloudprovider.InstanceType, labels map[string]string) advertised {
	if s.of != now {
		s.of, s.ads, s.types = now, map[adKey]advertised{}, map[typeKey]*decorated{}
	}
	key := keyOf(t, labels)
	if a, ok := s.ads[key]; ok {
		return a
	}
	hardware := s.hardware(t)
	a := advertised{fraction: fractional(hardware)}
	var err error
	if a.ad, err = gpu.ForNode(hardware, now.Sharing, labels); err != nil {
		s.refused(ctx, key, err)
	}
	s.ads[key] = a
	return a
}

// refused logs, once for all types, that a config gives nothing.
func (s *Shared) refused(ctx context.Context, key adKey, err error) {
	first := adKey{config: key.config, layout: key.layout}
	if _, told := s.ads[first]; !told {
		s.ads[first] = advertised{}
		log.FromContext(ctx).Error(err, "nodes would advertise no GPUs", "instance-type", key.kind, "config", key.config, "mig", key.layout)
	}
}

// hardware is a type's GPUs, by the book or else by its labels.
func (s *Shared) hardware(t *cloudprovider.InstanceType) model.InstanceType {
	if known, ok := s.book.Type(t.Name); ok {
		return known
	}
	const prefix = "karpenter.k8s.aws/instance-gpu-"
	label := func(name string) string {
		if r, ok := t.Requirements[prefix+name]; ok && r.Operator() == corev1.NodeSelectorOpIn {
			return r.Any()
		}
		return ""
	}
	count, err := strconv.ParseInt(label("count"), 10, 64)
	if err != nil || count == 0 {
		return model.InstanceType{Name: t.Name}
	}
	g := model.GPU{Manufacturer: label("manufacturer"), Model: label("name"), Count: count, Fraction: 1}
	if memory, err := strconv.ParseInt(label("memory"), 10, 64); err == nil {
		g.MemoryMiB = memory
	}
	return model.InstanceType{Name: t.Name, GPUs: []model.GPU{g}}
}

func fractional(t model.InstanceType) bool {
	return slices.ContainsFunc(t.GPUs, func(g model.GPU) bool { return g.Fraction > 0 && g.Fraction < 1 })
}

// Shareable reports whether a resource is one that a device config decides about.
func Shareable(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), "nvidia.com/") }

func counts(r corev1.ResourceList) bool {
	for name := range r {
		if Shareable(name) {
			return true
		}
	}
	return false
}

// WithGPUs is a list of resources with what is advertised in place of the
// physical GPUs.
func WithGPUs(r corev1.ResourceList, ad model.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range r {
		if !Shareable(name) {
			out[name] = q
		}
	}
	for name, n := range ad {
		if Shareable(corev1.ResourceName(name)) {
			out[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}
