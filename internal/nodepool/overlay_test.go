package nodepool

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kerfdev/kerf/internal/model"
)

func overlay(name, spec string) string {
	return "---\napiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

const onG4dn = "requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn]}]"

func TestOverlays(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		names []string // in the order in which they win
		notes []string
	}{
		"more weight wins, then the later name": {
			overlay("light", "weight: 5, price: '1', "+onG4dn) + overlay("a", "weight: 10, capacity: {example.com/x: 2}, "+onG4dn) + overlay("b", "weight: 10, priceAdjustment: '-5%', "+onG4dn),
			[]string{"b", "a", "light"},
			nil,
		},
		"price and adjustment exclude each other": {
			overlay("both", "price: '1', priceAdjustment: '-5%', "+onG4dn), nil,
			[]string{`5 error api-refused spec: the API server refuses it: Invalid value: cannot set both 'price' and 'priceAdjustment' -> keep one of price and priceAdjustment`},
		},
		"cpu is not to be overlaid": {
			overlay("cpu", "capacity: {cpu: 3}, "+onG4dn), nil,
			[]string{`5 error api-refused spec.capacity: the API server refuses it: Invalid value: invalid resource restricted -> remove cpu, memory, ephemeral-storage and pods: an overlay adds extended resources only`},
		},
		"nor is what the AWS provider counts": {
			overlay("neuron", "capacity: {aws.amazon.com/neuron: 3}, "+onG4dn), nil,
			[]string{`5 error karpenter-refused spec.capacity[aws.amazon.com/neuron]: karpenter does not use the NodeOverlay: invalid capacity: aws.amazon.com/neuron in resource, restricted -> remove it`},
		},
		"an adjustment has a sign": {
			overlay("sign", "priceAdjustment: 5%, "+onG4dn), nil,
			[]string{`5 error api-refused spec.priceAdjustment: the API server refuses it: Invalid value: "5%": spec.priceAdjustment in body should match '^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$' -> write a value of that form`},
		},
		"a weight above 10000": {
			overlay("heavy", "weight: 10001, "+onG4dn), nil,
			[]string{`5 error api-refused spec.weight: the API server refuses it: Invalid value: 10001: spec.weight in body should be less than or equal to 10000 -> write a number within that bound`},
		},
		"NotIn needs values, too": {
			overlay("none", "requirements: [{key: team, operator: NotIn, values: []}]"), nil,
			[]string{`5 error api-refused spec.requirements: the API server refuses it: Invalid value: requirements with operator 'NotIn' must have a value defined -> list at least one value under values`},
		},
		"equal weight on one price": {
			overlay("a", "price: '1', "+onG4dn) + overlay("b", "priceAdjustment: '+1', "+onG4dn),
			[]string{"b", "a"},
			[]string{"2 warning overlay-conflict : NodeOverlays b and a have the same weight 0 and both set the price: if one instance type matches both, karpenter does not use a at all -> give one of them more weight"},
		},
		"equal weight on different families": {
			overlay("a", "price: '1', "+onG4dn) + overlay("b", "price: '2', requirements: [{key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [g4dn]}]"), []string{"b", "a"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := Read(parse(t, c.text))
			var names []string
			for _, v := range got.Overlays {
				names = append(names, v.Name)
			}
			if diff := cmp.Diff(c.names, names) + cmp.Diff(c.notes, said(notes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReprice(t *testing.T) {
	for name, c := range map[string]struct {
		overlay Overlay
		want    float64
	}{
		"nothing":              {Overlay{}, 2},
		"a price":              {Overlay{Price: "0.5"}, 0.5},
		"less by a part":       {Overlay{PriceAdjustment: "-68%"}, 0.64},
		"more by a part":       {Overlay{PriceAdjustment: "+10.5%"}, 2.21},
		"less by an amount":    {Overlay{PriceAdjustment: "-0.5"}, 1.5},
		"never less than zero": {Overlay{PriceAdjustment: "-3"}, 0},
		"all of it":            {Overlay{PriceAdjustment: "-100%"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.overlay.Reprice(2); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	got, notes := Read(parse(t, `apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: gpu-abc
  labels: {karpenter.sh/nodepool: gpu, node.kubernetes.io/instance-type: g4dn.xlarge, topology.kubernetes.io/zone: us-east-1a, karpenter.sh/capacity-type: spot}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [g4dn, g5]}]
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  startupTaints: [{key: warm, effect: NoSchedule}]
status:
  nodeName: ip-10-0-0-1
  providerID: aws:///us-east-1a/i-1
  allocatable: {cpu: 3920m, memory: 14Gi, nvidia.com/gpu: "1"}
---
apiVersion: karpenter.sh/v1alpha5
kind: Machine
metadata: {name: old, labels: {karpenter.sh/provisioner-name: old-pool}, deletionTimestamp: "2026-01-01T00:00:00Z"}
spec:
  machineTemplateRef: {name: default}
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
`))
	want := []model.Node{{
		Name: "ip-10-0-0-1", Pool: "gpu", Type: "g4dn.xlarge", Zone: "us-east-1a", CapacityType: "spot",
		Labels: map[string]string{
			"karpenter.sh/nodepool": "gpu", "node.kubernetes.io/instance-type": "g4dn.xlarge",
			"topology.kubernetes.io/zone": "us-east-1a", "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64",
		},
		Taints:      []model.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}},
		Allocatable: model.Resources{"cpu": 3920, "memory": 14 << 30, "nvidia.com/gpu": 1},
		InFlight:    true, Place: model.Place{File: "in.yaml", Line: 1, Object: "NodeClaim gpu-abc"},
	}, {
		Name: "old", Pool: "old-pool", Type: "m5.large",
		Labels:   map[string]string{"karpenter.sh/nodepool": "old-pool", "karpenter.sh/provisioner-name": "old-pool", "node.kubernetes.io/instance-type": "m5.large"},
		InFlight: true, Leaving: true, Place: model.Place{File: "in.yaml", Line: 16, Object: "Machine old"},
	}}
	if diff := cmp.Diff(want, got.Claims); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	origins := []Origin{
		{
			Claim: "gpu-abc", NodeName: "ip-10-0-0-1", ProviderID: "aws:///us-east-1a/i-1", Class: "EC2NodeClass/default",
			Requirements: []model.Requirement{
				{Key: "kubernetes.io/arch", Operator: model.In, Values: []string{"amd64"}, Line: 8},
				{Key: "karpenter.k8s.aws/instance-family", Operator: model.In, Values: []string{"g4dn", "g5"}, Line: 8},
			},
			StartupTaints: []model.Taint{{Key: "warm", Effect: "NoSchedule"}},
		},
		{Claim: "old", Class: "EC2NodeClass/default", Requirements: []model.Requirement{
			{Key: "node.kubernetes.io/instance-type", Operator: model.In, Values: []string{"m5.large"}, Line: 21},
		}},
	}
	if diff := cmp.Diff(origins, got.Origins); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(notes) != 1 || notes[0].Code != "old-version" {
		t.Errorf("said %q", said(notes))
	}
}

func TestClass(t *testing.T) {
	got, notes := Read(parse(t, `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
  instanceStorePolicy: RAID0
  blockDeviceMappings:
    - {deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}
    - {deviceName: /dev/xvdb, rootVolume: true, ebs: {volumeSize: 100Gi}}
  kubelet:
    maxPods: 20
    podsPerCore: 4
    kubeReserved: {cpu: 200m, pid: "1000"}
    systemReserved: {memory: "instance.memory / 10"}
    evictionHard: {memory.available: 200Mi}
    cpuCFSQuota: false
`))
	want := map[string]Class{"EC2NodeClass/default": {
		Name: "default",
		Kubelet: model.Kubelet{
			MaxPods: 20, PodsPerCore: 4, KubeReserved: model.Resources{"cpu": 200}, EvictionHard: map[string]string{"memory.available": "200Mi"},
			RootBytes: 100 << 30, LocalDisks: true,
		},
		Place: model.Place{File: "in.yaml", Line: 1, Object: "EC2NodeClass default"},
	}}
	if diff := cmp.Diff(want, got.Classes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`17 warning not-modelled spec.kubelet.systemReserved.memory: "instance.memory / 10" is not a quantity; expressions (gate NodeClassCEL) are not modelled, so the default is taken -> write a quantity such as 100m or 1Gi`}, said(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRootVolume(t *testing.T) {
	const head = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  role: nodes\n" +
		"  subnetSelectorTerms: [{id: subnet-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n"
	const two = "  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}, {deviceName: /dev/xvdb, ebs: {volumeSize: 100Gi}}]\n"
	for name, c := range map[string]struct {
		spec string
		want int64
	}{
		"by the family's device":            {"  amiSelectorTerms: [{alias: al2023@latest}]\n" + two, 4 << 30},
		"Bottlerocket's second disk":        {"  amiSelectorTerms: [{alias: bottlerocket@latest}]\n" + two, 100 << 30},
		"the last of a family of one's own": {"  amiFamily: Custom\n  amiSelectorTerms: [{id: ami-1}]\n" + two, 100 << 30},
		"another disk is not the root":      {"  amiSelectorTerms: [{alias: al2023@latest}]\n  blockDeviceMappings: [{deviceName: /dev/sdf, ebs: {volumeSize: 4Gi}}]\n", 0},
		"no disks":                          {"  amiSelectorTerms: [{alias: al2023@latest}]\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Read(parse(t, head+c.spec))
			if size := got.Classes["EC2NodeClass/default"].Kubelet.RootBytes; size != c.want {
				t.Errorf("root volume of %d bytes, want %d", size, c.want)
			}
		})
	}
}
