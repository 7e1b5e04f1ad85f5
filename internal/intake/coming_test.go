package intake

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// onItsWay is a cluster in the middle of growing: a claim of two types, one
// that has launched, a node that registers and one that has been complete for a
// while.
const onItsWay = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: asked, uid: a, labels: {karpenter.sh/nodepool: gpu}, annotations: {kerf.dev/pods: "default/a"}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.12xlarge, g4dn.2xlarge]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: registers
  uid: r
  labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: on-demand}
  annotations: {kerf.dev/pods: "default/b,default/moves"}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  startupTaints: [{key: warm, effect: NoSchedule}]
  requirements: []
status:
  providerID: aws:///us-east-1a/i-r
  nodeName: node-r
  conditions: [{type: Initialized, status: Unknown, lastTransitionTime: "2026-11-30T11:58:00Z"}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: complete, uid: c, labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge}, annotations: {kerf.dev/pods: "default/c"}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status:
  providerID: aws:///us-east-1a/i-c
  nodeName: node-c
  conditions: [{type: Initialized, status: "True", lastTransitionTime: "2026-11-30T11:59:50Z"}]
---
apiVersion: v1
kind: Node
metadata: {name: node-r, labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: on-demand}}
spec: {taints: [{key: warm, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: stays, effect: NoSchedule}]}
status: {allocatable: {cpu: "3"}, conditions: [{type: Ready, status: "False"}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-c, labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: on-demand}}
status: {allocatable: {cpu: "3", memory: 14Gi, pods: "29", nvidia.com/gpu: "1"}, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: old}
spec: {taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]}
status: {allocatable: {cpu: "3"}, conditions: [{type: Ready, status: "True"}]}
`

func bornOf(t *testing.T, now time.Time) (model.Snapshot, map[string]string) {
	t.Helper()
	text := onItsWay
	for _, name := range []string{"a", "b", "c", "moves"} {
		text += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", uid: " + name + "}\nspec: {containers: [{name: c, image: i}]}\n"
	}
	text = strings.Replace(text, "{name: moves, uid: moves}\nspec: {", "{name: moves, uid: moves}\nspec: {nodeName: old, ", 1)
	loaded, err := Load([]source.File{{Name: "in.yaml", Data: []byte(text)}}, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]string{}
	for _, p := range loaded.Snapshot.Pods {
		on[p.Name] = p.Node
	}
	return loaded.Snapshot, on
}

func TestNodesOnTheirWayAreKeptForTheirPods(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		now  time.Time
		want map[string]string
	}{
		"while they come":                          {noon, map[string]string{"a": "asked", "b": "node-r", "c": "node-c", "moves": "node-r"}},
		"minutes after a node is complete":         {noon.Add(3 * time.Minute), map[string]string{"a": "asked", "b": "node-r", "c": "", "moves": "node-r"}},
		"when GPUs have been missing for too long": {noon.Add(time.Hour), map[string]string{"a": "asked", "b": "", "c": "", "moves": "old"}},
		"when nobody knows how late it is":         {time.Time{}, map[string]string{"a": "asked", "b": "", "c": "", "moves": "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, on := bornOf(t, c.now)
			if diff := cmp.Diff(c.want, on); diff != "" {
				t.Errorf("pods on nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// Whoever the scheduler gave the node to, the pod that it was bought for does not
// wait for it any longer.
func TestAFullNodeIsKeptForNobody(t *testing.T) {
	text := onItsWay
	for name, rest := range map[string]string{"c": "", "other": "nodeName: node-c, "} {
		text += "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", uid: " + name + "}\nspec: {" + rest +
			"containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}\n"
	}
	loaded, err := Load([]source.File{{Name: "in.yaml", Data: []byte(text)}}, Options{Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded.Snapshot.Pods {
		if want := map[string]string{"other": "node-c"}[p.Name]; p.Node != want {
			t.Errorf("pod %s is on %q, want %q", p.Name, p.Node, want)
		}
	}
}

func TestWhatANodeOnItsWayWillHave(t *testing.T) {
	s, _ := bornOf(t, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	nodes := map[string]model.Node{}
	for _, n := range s.Nodes {
		nodes[n.Name] = n
	}
	asked := nodes["asked"]
	if asked.Allocatable[model.NvidiaGPU] != 1 || len(asked.Devices) != 1 || asked.Unready != "" {
		t.Errorf("of a g4dn.12xlarge and a g4dn.2xlarge the lesser counts, got %+v", asked)
	}
	registers := nodes["node-r"]
	if registers.Unready != "" || !registers.InFlight || registers.Allocatable[model.NvidiaGPU] != 1 || registers.Allocatable[model.CPU] != 3000 {
		t.Errorf("a node that registers has what it reports and what is to come, got %+v", registers)
	}
	if diff := cmp.Diff([]model.Taint{{Key: "stays", Effect: "NoSchedule"}}, registers.Taints); diff != "" {
		t.Errorf("taints that it does not lose (-want +got):\n%s", diff)
	}
}
