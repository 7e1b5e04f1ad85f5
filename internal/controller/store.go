package controller

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/intake"
	"github.com/kerfdev/kerf/internal/live"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/workload"
)

// A store holds a cluster as the model sees it. Every object is read once for
// each of its versions, when the watch brings it, so that a decision over twenty
// thousand pods does not read twenty thousand pods.
type store struct {
	clock  clock.Clock
	scheme *runtime.Scheme

	mu     sync.Mutex
	scope  *workload.Scope
	pods   shelf[podEntry]
	nodes  shelf[nodeEntry]
	claims shelf[claimEntry]
	// Names of nodes and of NodeClaims by the provider's id.
	nodeOf, claimOf map[string]string
	pools           shelf[*karpenter.NodePool]
	docs            shelf[manifest.Document] // of what changes seldom

	scopes    int // goes up when what pods refer to changes
	documents int // goes up when docs change
	specs     map[[sha256.Size]byte]*model.PodSpec
	shares    int // pods that ask for a part of a GPU
	buried    map[types.UID]time.Time
	waits     int       // pods that wait
	stirred   time.Time // when the scheduler was last given reason to try them
}

// A podEntry is a pod and what was read of it.
type podEntry struct {
	object *corev1.Pod
	read   model.Pod
	takes  bool // it is in the model at all
	waits  bool // it is to be given a place
	scope  int  // the state of the scope that it was read against; -1 = it does not depend on it
}

// A nodeEntry is a node, and what became of it in the last frame.
type nodeEntry struct {
	object *corev1.Node
	read   model.Node
	frame  *intake.Frame
	claim  *karpenter.NodeClaim // that it was seen with
	seen   model.Node
}

// A claimEntry is a NodeClaim, and what is expected of it in the last frame.
type claimEntry struct {
	object  *karpenter.NodeClaim
	read    intake.Claim
	frame   *intake.Frame
	ordered model.Node
}

func newStore(clk clock.Clock, scheme *runtime.Scheme) *store {
	return &store{clock: clk, scheme: scheme, scope: workload.NewScope(), specs: map[[sha256.Size]byte]*model.PodSpec{}, nodeOf: map[string]string{}, claimOf: map[string]string{}, buried: map[types.UID]time.Time{}}
}

// Set takes an object of the cluster into the store and reports whether a
// decision should follow. The object must not be written to afterwards.
func (s *store) Set(o client.Object) (decide bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v := o.(type) {
	case *corev1.Pod:
		return s.setPod(v)
	case *corev1.Node:
		return s.setNode(v)
	case *karpenter.NodeClaim:
		return s.setClaim(v)
	case *karpenter.NodePool:
		s.pools.put(v.Name, v)
		return s.setDocument(o)
	case *corev1.Namespace, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim:
		s.scope.Set(v)
		s.scopes++
		return false
	}
	if isStorageClass(o) {
		s.scope.Set(o)
		s.scopes++
		return false
	}
	return s.setDocument(o)
}

// Delete takes an object out of the store and reports whether a decision should
// follow.
func (s *store) Delete(o client.Object) (decide bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch v := o.(type) {
	case *corev1.Pod:
		s.dropPod(keyOf(v))
		return false
	case *corev1.Node:
		s.nodes.drop(v.Name)
		forgetName(s.nodeOf, v.Spec.ProviderID, v.Name)
		return true
	case *karpenter.NodeClaim:
		s.claims.drop(v.Name)
		forgetName(s.claimOf, v.Status.ProviderID, v.Name)
		s.bury(v.UID)
		return true
	case *karpenter.NodePool:
		s.pools.drop(v.Name)
	case *corev1.Namespace, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim:
		s.scope.Delete(v)
		s.scopes++
		return false
	}
	if isStorageClass(o) {
		s.scope.Delete(o)
		s.scopes++
		return false
	}
	s.docs.drop(s.titleOf(o))
	s.documents++
	return true
}

// forgetName drops a name by its id, unless another has it by now.
func forgetName(names map[string]string, id, name string) {
	if names[id] == name {
		delete(names, id)
	}
}

// Assume counts a NodeClaim that was just created, before the watch brings it.
// One that has come and gone in the meantime stays gone.
func (s *store) Assume(c *karpenter.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, gone := s.buried[c.UID]; gone {
		return
	}
	if have, ok := s.claims.get(c.Name); ok && have.object.UID == c.UID {
		return
	}
	s.setClaim(c)
}

// burial is how long it is remembered that a claim is gone: longer than any
// answer of the API server is on its way.
const burial = 10 * time.Minute

func (s *store) bury(uid types.UID) {
	now := s.clock.Now()
	for old, since := range s.buried {
		if now.Sub(since) > burial {
			delete(s.buried, old)
		}
	}
	s.buried[uid] = now
}

func keyOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func (s *store) setPod(p *corev1.Pod) bool {
	key := keyOf(p)
	before, had := s.pods.get(key)
	if had && before.object.UID == p.UID && before.object.ResourceVersion == p.ResourceVersion && p.ResourceVersion != "" {
		return false
	}
	s.uncount(before)
	if had && (before.object.Spec.NodeName == "" && p.Spec.NodeName != "" || before.object.Status.NominatedNodeName != "" && p.Status.NominatedNodeName == "") {
		s.stirred = time.Now()
	}
	e := s.readPod(p)
	s.pods.put(key, e)
	return e.waits && !(had && before.waits && before.object.UID == p.UID)
}

// readPod reads a pod. Pods of equal specs share one, which is what makes
// thousands of them light and quick to tell apart.
func (s *store) readPod(p *corev1.Pod) podEntry {
	e := podEntry{object: p, scope: -1}
	e.read, e.takes = s.scope.Pod(p)
	if workload.Depends(p) {
		e.scope = s.scopes
	}
	if !e.takes {
		return e
	}
	e.read.Spec = s.shared(e.read.Spec)
	if len(e.read.Spec.Shares) > 0 {
		s.shares++
	}
	if e.waits = awaits(p); e.waits {
		s.waits++
	}
	return e
}

// awaits reports whether a pod is to be given a place: the scheduler has found
// none, and it belongs to no node. One that is nominated to a node waits too,
// other than to Karpenter (v1.15).
func awaits(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && podutils.FailedToSchedule(p) && !podutils.IsScheduled(p) &&
		!podutils.IsOwnedByDaemonSet(p) && !podutils.IsOwnedByNode(p)
}

func (s *store) shared(spec *model.PodSpec) *model.PodSpec {
	spec.Place = model.Place{}
	text, err := json.Marshal(spec)
	if err != nil {
		return spec // a spec holds nothing that JSON cannot
	}
	sum := sha256.Sum256(text)
	if have, ok := s.specs[sum]; ok {
		return have
	}
	if len(s.specs) > 2*s.pods.len()+1000 {
		clear(s.specs) // of pods long gone; those that are left share less for a while
	}
	s.specs[sum] = spec
	return spec
}

func (s *store) dropPod(key string) {
	e, _ := s.pods.get(key)
	s.uncount(e)
	s.pods.drop(key)
}

// uncount takes back what readPod counted of a pod.
func (s *store) uncount(e podEntry) {
	if e.takes && len(e.read.Spec.Shares) > 0 {
		s.shares--
	}
	if e.waits {
		s.waits--
	}
}

func (s *store) setNode(n *corev1.Node) bool {
	read := s.scope.Node(n)
	before, had := s.nodes.get(n.Name)
	if !had || !reflect.DeepEqual(before.read, read) {
		s.stirred = time.Now()
	}
	s.nodes.put(n.Name, nodeEntry{object: n, read: read})
	if id := n.Spec.ProviderID; id != "" {
		s.nodeOf[id] = n.Name
	}
	return !had || before.read.Leaving != read.Leaving
}

func (s *store) setClaim(c *karpenter.NodeClaim) bool {
	doc, err := s.document(c)
	if err != nil {
		return false // objects of the API's own types can be written as JSON
	}
	read, ok := intake.ReadClaim(doc)
	if !ok {
		return false
	}
	before, had := s.claims.get(c.Name)
	s.claims.put(c.Name, claimEntry{object: c, read: read})
	if id := c.Status.ProviderID; id != "" {
		s.claimOf[id] = c.Name
	}
	return read.Node.Leaving && (!had || !before.read.Node.Leaving)
}

// setDocument keeps an object that changes seldom.
func (s *store) setDocument(o client.Object) bool {
	doc, err := s.document(o)
	if err != nil {
		return false
	}
	key := doc.Title()
	if before, ok := s.docs.get(key); ok && same(before.Root, doc.Root) {
		return false
	}
	s.docs.put(key, doc)
	s.documents++
	return true
}

func (s *store) titleOf(o client.Object) string {
	doc, err := s.document(o)
	if err != nil {
		return ""
	}
	return doc.Title()
}

// document makes a document of a typed object, whose kind the scheme knows.
func (s *store) document(o client.Object) (manifest.Document, error) {
	gvk, err := apiutil.GVKForObject(o, s.scheme)
	if err != nil {
		return manifest.Document{}, fmt.Errorf("kind of %s: %w", keyOf(o), err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return manifest.Document{}, fmt.Errorf("read %s %s: %w", gvk.Kind, keyOf(o), err)
	}
	object["apiVersion"], object["kind"] = gvk.GroupVersion().String(), gvk.Kind
	if gvk.Kind == "NodePool" {
		forget(object)
	}
	return live.Document(object), nil
}

// forget leaves out what changes all the time and decides nothing: how much of
// a pool is in use, and when its conditions were last looked at.
func forget(object map[string]any) {
	if status, ok := object["status"].(map[string]any); ok {
		delete(status, "resources")
		delete(status, "nodes")
	}
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "resourceVersion")
		delete(meta, "managedFields")
	}
}

// same compares two trees.
func same(a, b *manifest.Node) bool { return slices.Equal(a.JSON(), b.JSON()) }

// A shelf is a map that is gone through in the order of its keys, which is
// done for every decision and so is done without looking any key up.
type shelf[V any] struct {
	keys   []string // sorted
	values []*V     // beside keys
}

func (s *shelf[V]) len() int { return len(s.keys) }

func (s *shelf[V]) get(key string) (v V, ok bool) {
	if at, ok := slices.BinarySearch(s.keys, key); ok {
		return *s.values[at], true
	}
	return v, false
}

func (s *shelf[V]) put(key string, v V) {
	at, ok := slices.BinarySearch(s.keys, key)
	if ok {
		s.values[at] = &v
		return
	}
	s.keys, s.values = slices.Insert(s.keys, at, key), slices.Insert(s.values, at, &v)
}

func (s *shelf[V]) drop(key string) {
	if at, ok := slices.BinarySearch(s.keys, key); ok {
		s.keys, s.values = slices.Delete(s.keys, at, at+1), slices.Delete(s.values, at, at+1)
	}
}

// each calls f with every value, which f may change.
func (s *shelf[V]) each(f func(*V)) {
	for _, v := range s.values {
		f(v)
	}
}
