package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/awslabs/operatorpkg/object"
	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/nodepool"
	"github.com/kerfdev/kerf/internal/source"
)

// The kinds of node class that can be used, the default one first.
var (
	ec2Class  = schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}
	kwokClass = schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"}
)

// NodeClass is a node class of any cloud of which only the conditions are
// understood. Karpenter's library asks for a Go type a kind, so each kind has
// one of its own that holds this.
type NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              map[string]any  `json:"spec,omitempty"`
	Status            NodeClassStatus `json:"status,omitempty"`
}

// NodeClassStatus is what is understood of a node class's status.
type NodeClassStatus struct {
	Conditions []status.Condition `json:"conditions,omitempty"`
}

// GetConditions returns the conditions as stored.
func (c *NodeClass) GetConditions() []status.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *NodeClass) SetConditions(conditions []status.Condition) { c.Status.Conditions = conditions }

func (c *NodeClass) copy() NodeClass {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	out.Spec = runtime.DeepCopyJSON(c.Spec)
	out.Status.Conditions = slices.Clone(c.Status.Conditions)
	return out
}

// EC2NodeClass is karpenter.k8s.aws/v1 EC2NodeClass.
type EC2NodeClass struct {
	NodeClass `json:",inline"`
}

// StatusConditions returns the conditions under the root condition Ready.
func (c *EC2NodeClass) StatusConditions(o ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(c, o...)
}

// DeepCopyObject copies the object.
func (c *EC2NodeClass) DeepCopyObject() runtime.Object { return &EC2NodeClass{c.copy()} }

// EC2NodeClassList is a list of EC2NodeClasses.
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}

// DeepCopyObject copies the list.
func (l *EC2NodeClassList) DeepCopyObject() runtime.Object {
	out := &EC2NodeClassList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, EC2NodeClass{l.Items[i].copy()})
	}
	return out
}

// KWOKNodeClass is karpenter.kwok.sh/v1alpha1 KWOKNodeClass.
type KWOKNodeClass struct {
	NodeClass `json:",inline"`
}

// StatusConditions returns the conditions under the root condition Ready.
func (c *KWOKNodeClass) StatusConditions(o ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions().For(c, o...)
}

// DeepCopyObject copies the object.
func (c *KWOKNodeClass) DeepCopyObject() runtime.Object { return &KWOKNodeClass{c.copy()} }

// KWOKNodeClassList is a list of KWOKNodeClasses.
type KWOKNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []KWOKNodeClass `json:"items"`
}

// DeepCopyObject copies the list.
func (l *KWOKNodeClassList) DeepCopyObject() runtime.Object {
	out := &KWOKNodeClassList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, KWOKNodeClass{l.Items[i].copy()})
	}
	return out
}

var registering sync.Mutex

// registerClasses tells client-go's scheme, which Karpenter's library reads,
// of the kinds that no one else has told it of, and returns those whose CRDs
// the cluster has. Where it has none the EC2NodeClass is expected to come.
func registerClasses(c client.Client) []schema.GroupVersionKind {
	registering.Lock()
	defer registering.Unlock()
	for gvk, kinds := range map[schema.GroupVersionKind][2]runtime.Object{
		ec2Class:  {&EC2NodeClass{}, &EC2NodeClassList{}},
		kwokClass: {&KWOKNodeClass{}, &KWOKNodeClassList{}},
	} {
		if scheme.Scheme.Recognizes(gvk) {
			continue
		}
		metav1.AddToGroupVersion(scheme.Scheme, gvk.GroupVersion())
		scheme.Scheme.AddKnownTypeWithName(gvk, kinds[0])
		scheme.Scheme.AddKnownTypeWithName(listOf(gvk), kinds[1])
	}
	var out []schema.GroupVersionKind
	for _, gvk := range []schema.GroupVersionKind{ec2Class, kwokClass} {
		if _, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err == nil {
			out = append(out, gvk)
		}
	}
	if len(out) == 0 {
		return []schema.GroupVersionKind{ec2Class}
	}
	return out
}

func listOf(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	gvk.Kind += "List"
	return gvk
}

// newClass makes an empty object of a registered kind.
func newClass(gvk schema.GroupVersionKind) status.Object {
	o, err := scheme.Scheme.New(gvk)
	if err != nil {
		panic(fmt.Sprintf("%s was registered: %v", gvk, err))
	}
	return o.(status.Object)
}

// class is what a node class means for a launch.
type class struct {
	kubelet model.Kubelet
	hash    string // of the spec
	unready string // why nothing can be launched; "" = ready
}

// class reads a node class. The error is the client's when it does not exist,
// also when it is about to go.
func (s *Simulated) class(ctx context.Context, ref *karpenter.NodeClassReference) (class, error) {
	i := slices.IndexFunc(s.classes, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == ref.GroupKind() })
	if i < 0 {
		return class{}, fmt.Errorf("the simulated cloud has no node class of kind %s.%s", ref.Kind, ref.Group)
	}
	o := newClass(s.classes[i])
	if err := s.client.Get(ctx, client.ObjectKey{Name: ref.Name}, o); err != nil {
		return class{}, err
	}
	return s.kubelets.class(o, s.classes[i])
}

// A memory of what was read of specs, by their hashes: a class is asked for at
// each launch and changes rarely.
type memory struct {
	mu   sync.Mutex
	read map[string]model.Kubelet
}

// class takes out of a node class what matters. A node class that is deleted
// launches nothing any more.
func (m *memory) class(o status.Object, gvk schema.GroupVersionKind) (class, error) {
	spec, err := specOf(o)
	if err != nil {
		return class{}, err
	}
	out := class{hash: object.Hash(string(spec))}
	if !o.GetDeletionTimestamp().IsZero() {
		out.unready = "node class " + o.GetName() + " is being deleted"
	}
	for _, c := range o.GetConditions() {
		if c.Type == status.ConditionReady && c.Status == metav1.ConditionFalse {
			out.unready = c.Reason + ": " + c.Message
		}
	}
	out.kubelet, err = m.kubelet(out.hash, gvk, spec)
	return out, err
}

func (m *memory) kubelet(hash string, gvk schema.GroupVersionKind, spec json.RawMessage) (model.Kubelet, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.read[hash]; ok {
		return k, nil
	}
	k, err := kubeletOf(gvk, spec)
	if err != nil {
		return model.Kubelet{}, err
	}
	if m.read == nil {
		m.read = map[string]model.Kubelet{}
	}
	m.read[hash] = k
	return k, nil
}

// specOf is the spec of a class as JSON.
func specOf(o status.Object) (json.RawMessage, error) {
	all, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode node class %s: %w", o.GetName(), err)
	}
	var parts struct{ Spec json.RawMessage }
	if err := json.Unmarshal(all, &parts); err != nil {
		return nil, fmt.Errorf("decode node class %s: %w", o.GetName(), err)
	}
	return parts.Spec, nil
}

// kubeletOf reads the kubelet's settings as the planner does.
func kubeletOf(gvk schema.GroupVersionKind, spec json.RawMessage) (model.Kubelet, error) {
	if gvk != ec2Class || len(spec) == 0 {
		return model.Kubelet{}, nil
	}
	const name = "class" // which of them makes no difference
	doc, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		return model.Kubelet{}, fmt.Errorf("encode a node class: %w", err)
	}
	docs, _ := source.Parse(source.File{Name: "cluster.json", Data: doc})
	read, _ := nodepool.Read(docs)
	return read.Classes[gvk.Kind+"/"+name].Kubelet, nil
}

// readyClasses sets the conditions that nobody has set, as a provider's own
// controllers do for classes in order. What is False stays.
func (s *Simulated) readyClasses(ctx context.Context) error {
	for _, gvk := range s.classes {
		list, err := scheme.Scheme.New(listOf(gvk))
		if err != nil {
			return fmt.Errorf("make a list of %s: %w", gvk.Kind, err)
		}
		if err := s.client.List(ctx, list.(client.ObjectList)); err != nil {
			return fmt.Errorf("list node classes: %w", err)
		}
		items, err := itemsOf(list)
		if err != nil {
			return err
		}
		for _, o := range items {
			if err := s.readyClass(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Simulated) readyClass(ctx context.Context, o status.Object) error {
	old := o.DeepCopyObject().(client.Object)
	set := o.StatusConditions(status.WithClock(s.clock))
	unknown := map[string]bool{}
	for _, c := range set.List() {
		if c.IsUnknown() && c.Type != status.ConditionReady {
			unknown[c.Type] = true
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(unknown)) {
		set.SetTrue(kind)
	}
	if len(unknown) == 0 {
		if !set.Get(status.ConditionReady).IsUnknown() {
			return nil
		}
		set.SetTrue(status.ConditionReady)
	}
	if err := s.client.Status().Patch(ctx, o, client.MergeFrom(old)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("make node class %s ready: %w", o.GetName(), err)
	}
	return nil
}

// itemsOf takes the classes out of a list.
func itemsOf(list runtime.Object) ([]status.Object, error) {
	var out []status.Object
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("read a list of node classes: %w", err)
	}
	for _, o := range items {
		if c, ok := o.(status.Object); ok {
			out = append(out, c)
		}
	}
	return out, nil
}
