package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kerfdev/kerf/internal/model"
)

// A pod that says nothing of taints gets a spot node with one GPU, runs there
// to its end, and the node goes when it has.
func TestAPodWithoutTolerationGetsASpotNodeThatGoesWhenItIsDone(t *testing.T) {
	s := set(t)
	s.control()
	s.apply("seed1.yaml")
	added := slices.ContainsFunc(s.pod("list-gpus").Spec.Tolerations, func(tol corev1.Toleration) bool {
		return tol.Key == model.NvidiaGPU && tol.Operator == corev1.TolerationOpExists
	})
	if !added {
		t.Error("the pod has no toleration for nvidia.com/gpu; the API server adds one")
	}
	s.awaitPods(1, corev1.PodRunning)
	if diff := cmp.Diff(map[string]int{"nvidia spot g4dn.xlarge": 1}, s.launched()); diff != "" {
		t.Errorf("launched (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"nvidia": 1}, s.gpus()); diff != "" {
		t.Errorf("GPUs of each pool (-want +got):\n%s", diff)
	}
	s.awaitPods(1, corev1.PodSucceeded)
	s.awaitFleet(0)
}

// Twenty-five pods share GPUs that are cut into ten, one has a GPU to itself;
// when five are left, one shared node is.
func TestSharedAndWholeGPUsAreBoughtByWhatIsAskedAndGivenBack(t *testing.T) {
	s := set(t)
	s.control()
	s.apply("seed3.yaml")
	s.awaitPods(26, corev1.PodRunning)
	s.awaitFleet(4)
	if diff := cmp.Diff(map[string]int{"whole spot g4dn.xlarge": 1, "sliced spot g4dn.xlarge": 3}, s.launched()); diff != "" {
		t.Errorf("launched (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"whole": 1, "sliced": 30}, s.gpus()); diff != "" {
		t.Errorf("GPUs of each pool (-want +got):\n%s", diff)
	}
	s.scale("notebook", 5)
	s.awaitPods(6, corev1.PodRunning)
	s.awaitFleet(2)
	if diff := cmp.Diff(map[string]int{"whole spot g4dn.xlarge": 1, "sliced spot g4dn.xlarge": 1}, s.launched()); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// A node whose GPUs nobody advertises is named, with the reason and what to do.
func TestANodeWithoutItsGPUsIsNamedWithTheReason(t *testing.T) {
	s := set(t)
	s.control()
	s.apply("seed2.yaml")
	s.said("NodeClaim", "GPUsNotRegistered", "no nvidia.com/gpu", "kube-system/device-plugin does not tolerate the node's taint example.com/training")
	s.said("Node", "GPUsNotRegistered", "add the toleration {key: example.com/training, operator: Exists}")
	err := s.merge(&appsv1.DaemonSet{}, "kube-system", "device-plugin",
		`{"spec":{"template":{"spec":{"tolerations":[{"key":"example.com/training","operator":"Exists"}]}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	s.awaitPods(1, corev1.PodRunning)
}

// launched counts the instances of each kind that the cloud runs.
func (s *scene) launched() map[string]int {
	out := map[string]int{}
	for _, i := range s.Cloud.Instances() {
		out[fmt.Sprintf("%s %s %s", i.Pool, i.CapacityType, i.Type)]++
	}
	return out
}

// gpus adds up what nodes advertise, by pool.
func (s *scene) gpus() map[string]int64 {
	s.Helper()
	nodes, err := s.Nodes(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	out := map[string]int64{}
	for i := range nodes {
		for name, q := range nodes[i].Status.Allocatable {
			if strings.HasPrefix(string(name), model.NvidiaGPU) {
				out[nodes[i].Labels[model.LabelNodePool]] += q.Value()
			}
		}
	}
	return out
}

// scale changes how many pods a Deployment of the namespace has.
func (s *scene) scale(name string, replicas int) {
	s.Helper()
	if err := s.replicas(name, replicas); err != nil {
		s.Fatal(err)
	}
	s.Timeline.Note("--- %s is scaled to %d", name, replicas)
}

func (s *scene) replicas(name string, n int) error {
	return s.merge(&appsv1.Deployment{}, s.Namespace(), name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
}

// merge merges JSON into an object.
func (s *scene) merge(o client.Object, namespace, name, json string) error {
	o.SetNamespace(namespace)
	o.SetName(name)
	return s.Client.Patch(s.ctx, o, client.RawPatch(types.MergePatchType, []byte(json)))
}
