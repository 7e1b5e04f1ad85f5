package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/kerfdev/kerf/internal/model"
)

const inTheCluster = `apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {tier: gold}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [us-east-1a]}]}]
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-east-1b]}]}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: bound, namespace: team-a}
spec: {volumeName: pv}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: free, namespace: team-a}
spec: {storageClassName: gp3}
---
apiVersion: v1
kind: Node
metadata:
  name: node-0
  labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: spot, nvidia.com/gpu.count: "1"}
spec: {taints: [{key: nvidia.com/gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: "4", nvidia.com/gpu: "10"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-5d4f-abcde
  namespace: team-a
  uid: "1"
  labels: {app: web, pod-template-hash: 5d4f}
  annotations: {karpenter.sh/do-not-disrupt: "true"}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f, uid: rs, controller: true}]
spec:
  priority: 7
  nodeSelector: {karpenter.k8s.aws/instance-gpu-name: t4}
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]}]
  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, namespaceSelector: {matchLabels: {tier: gold}}, labelSelector: {matchLabels: {app: web}}}]}}
  volumes: [{name: a, persistentVolumeClaim: {claimName: bound}}, {name: b, persistentVolumeClaim: {claimName: free}}, {name: c, persistentVolumeClaim: {claimName: lost}}]
  initContainers: [{name: i, image: i, resources: {requests: {cpu: "2"}}}]
  containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 8080}], env: [{name: A, value: b}], resources: {requests: {cpu: "1", nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}}]
status: {phase: Pending}
---
apiVersion: v1
kind: Pod
metadata: {name: ds-x, namespace: team-a, uid: "2", ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: ds, uid: ds, controller: true}]}
spec: {nodeName: node-0, containers: [{name: c, image: i}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: done, namespace: team-a, uid: "3"}
spec: {nodeName: node-0, containers: [{name: c, image: i}]}
status: {phase: Succeeded}
---
apiVersion: v1
kind: Pod
metadata: {name: going, namespace: team-a, uid: "4", deletionTimestamp: "2026-01-01T00:00:00Z"}
spec: {containers: [{name: c, image: i}]}
status: {phase: Pending}
`

// What a watcher reads one object at a time is what Read makes of a dump.
func TestAScopeReadsAsReadDoes(t *testing.T) {
	want, _ := read(t, inTheCluster)
	s := NewScope()
	var got Result
	each(t, func(object any) { s.Set(object) })
	each(t, func(object any) {
		switch v := object.(type) {
		case *corev1.Pod:
			before := v.DeepCopy()
			if p, ok := s.Pod(v); ok {
				got.Pods = append(got.Pods, p)
			}
			if diff := cmp.Diff(before, v); diff != "" {
				t.Errorf("pod %s was written to (-before +after):\n%s", v.Name, diff)
			}
		case *corev1.Node:
			got.Nodes = append(got.Nodes, s.Node(v))
		}
	})
	places := cmp.Options{cmpopts.IgnoreTypes(model.Place{}), cmpopts.IgnoreFields(model.Env{}, "Line"), cmpopts.IgnoreFields(model.Requirement{}, "Line"), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(want.Pods, got.Pods, places); diff != "" {
		t.Errorf("pods (-read +scope):\n%s", diff)
	}
	if diff := cmp.Diff(want.Nodes, got.Nodes, places); diff != "" {
		t.Errorf("nodes (-read +scope):\n%s", diff)
	}
}

func TestAScopeForgets(t *testing.T) {
	s := NewScope()
	each(t, func(object any) { s.Set(object) })
	each(t, func(object any) { s.Delete(object) })
	each(t, func(object any) {
		v, isPod := object.(*corev1.Pod)
		if !isPod || !Depends(v) {
			return
		}
		p, _ := s.Pod(v)
		if len(p.Spec.Refused) != 3 {
			t.Errorf("pod %s lacks its three claims, and is told %q", p.Name, words(p.Spec))
		}
		if got := p.Spec.PodAffinity[0].Namespaces; len(got) != 0 {
			t.Errorf("no namespace is golden any more, got %q", got)
		}
	})
}

// each decodes the objects of the test's cluster into the API's own types.
func each(t *testing.T, f func(object any)) {
	t.Helper()
	for text := range strings.SplitSeq(inTheCluster, "---\n") {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		object := map[string]any{
			"Namespace": &corev1.Namespace{}, "StorageClass": &storagev1.StorageClass{}, "PersistentVolume": &corev1.PersistentVolume{},
			"PersistentVolumeClaim": &corev1.PersistentVolumeClaim{}, "Node": &corev1.Node{}, "Pod": &corev1.Pod{},
		}[kind.Kind]
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Fatal(err)
		}
		f(object)
	}
}
