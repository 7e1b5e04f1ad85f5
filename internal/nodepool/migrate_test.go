package nodepool

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// migrated is what Migrate makes of the Provisioner of inlineProvider.
const inlineProvider = `apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: gpu
  uid: 1234
spec:
  ttlSecondsAfterEmpty: 30
  labels:
    example.com/node-type: gpu
  requirements:
    - key: karpenter.k8s.aws/instance-generation
      operator: Gt
      values: ["3"]
  taints:
    - key: nvidia.com/gpu
      value: "true"
      effect: NoSchedule
  limits:
    resources:
      cpu: 1000
  kubeletConfiguration:
    containerRuntime: dockerd
    maxPods: 30
  provider:
    launchTemplate: gpu-${local.cluster}
    subnetSelector:
      karpenter.sh/discovery: ${local.cluster}
    tags:
      "yes": "on"
`

const inlineMigrated = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu
spec:
  amiSelectorTerms:
    - alias: al2@latest
  role: KarpenterNodeRole-replace-me
  subnetSelectorTerms:
    - tags:
        karpenter.sh/discovery: ${local.cluster}
  securityGroupSelectorTerms:
    - tags:
        karpenter.sh/discovery: ${local.cluster}
  tags:
    "yes": "on"
  metadataOptions:
    httpPutResponseHopLimit: 2
  kubelet:
    maxPods: 30
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    metadata:
      labels:
        example.com/node-type: gpu
    spec:
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: gpu
      requirements:
        - key: karpenter.k8s.aws/instance-generation
          operator: Gt
          values: ["3"]
        - key: kubernetes.io/os
          operator: In
          values: [linux]
        - key: kubernetes.io/arch
          operator: In
          values: [amd64]
        - key: karpenter.sh/capacity-type
          operator: In
          values: [on-demand]
      taints:
        - key: nvidia.com/gpu
          value: "true"
          effect: NoSchedule
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 30s
  limits:
    cpu: 1000
`

func TestMigrateWritesEveryChange(t *testing.T) {
	m, err := Migrate(parse(t, inlineProvider+"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inlineMigrated, string(m.YAML)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var changes []string
	for _, c := range m.Changes {
		changes = append(changes, fmt.Sprintf("%s: %s => %s", c.Place, c.Old, c.New))
	}
	if diff := cmp.Diff([]string{
		"in.yaml:24: no amiFamily => amiFamily: AL2, the default of v1alpha1",
		"in.yaml:25: amiFamily: AL2 => amiSelectorTerms: [{alias: al2@latest}]",
		"in.yaml:25: no spec.metadataOptions.httpPutResponseHopLimit (default 2) => spec.metadataOptions.httpPutResponseHopLimit: 2, since v1 takes 1",
		"in.yaml:26: subnetSelector => subnetSelectorTerms",
		"in.yaml:1: karpenter.sh/v1alpha5 Provisioner => karpenter.sh/v1 NodePool",
		"in.yaml:6: no ttlSecondsUntilExpired => spec.template.spec.expireAfter: Never",
		"in.yaml:7: spec.ttlSecondsAfterEmpty: 30 => spec.disruption.consolidationPolicy: WhenEmpty, consolidateAfter: 30s",
		"in.yaml:8: spec.labels => spec.template.metadata.labels",
		"in.yaml:10: spec.requirements => spec.template.spec.requirements",
		"in.yaml:10: default => kubernetes.io/os In [linux]",
		"in.yaml:10: default => kubernetes.io/arch In [amd64]",
		"in.yaml:10: default => karpenter.sh/capacity-type In [on-demand]",
		"in.yaml:14: spec.taints => spec.template.spec.taints",
		"in.yaml:19: spec.limits.resources => spec.limits",
		"in.yaml:21: spec.kubeletConfiguration => spec.kubelet of EC2NodeClass gpu",
		"in.yaml:24: spec.provider => EC2NodeClass gpu",
	}, changes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var blocked []string
	for _, n := range m.Blocked {
		blocked = append(blocked, fmt.Sprintf("%s %s: %s -> %s", n.Place, n.Place.Field, n.Text, n.Fix))
	}
	if diff := cmp.Diff([]string{
		`in.yaml:25 spec.provider.launchTemplate: launchTemplate "gpu-${local.cluster}" cannot be converted: Karpenter has made its own launch templates since v1beta1 -> write what the template holds on the EC2NodeClass: userData, amiSelectorTerms, blockDeviceMappings, securityGroupSelectorTerms, metadataOptions, role or instanceProfile`,
		"in.yaml:25 spec: v1 demands a role or an instanceProfile and neither is given: a placeholder is written at spec.role -> write the IAM role of your nodes at spec.role, or an instanceProfile",
		"in.yaml:25 spec: v1 demands securityGroupSelectorTerms and none is given: the karpenter.sh/discovery tag of the subnets is written -> check that spec.securityGroupSelectorTerms selects what the nodes need",
		"in.yaml:22 spec.kubeletConfiguration.containerRuntime: containerRuntime dockerd is left out: every node runs containerd -> ",
	}, blocked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"31 info passed-over : Namespace team-a is not a Karpenter object and is left out",
		"10 info provisioner-defaults spec.requirements: v1alpha5 adds requirements of its own, which v1 does not: kubernetes.io/os In [linux], kubernetes.io/arch In [amd64], karpenter.sh/capacity-type In [on-demand]",
	}, said(m.Notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMigrateNodeClasses(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		want    []string // lines that are written
		blocked []string // texts
	}{
		"Ubuntu needs images of its own": {`apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: a}
spec: {amiFamily: Ubuntu, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
`, []string{"amiFamily: AL2", "id: ami-replaceme", "volumeSize: 20Gi"}, []string{"v1 has no family Ubuntu: AL2 is written"}},
		"a chosen image keeps its family": {`apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: a}
spec: {amiFamily: AL2023, amiSelectorTerms: [{name: mine}], role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}], metadataOptions: {httpPutResponseHopLimit: 3}}
`, []string{"amiFamily: AL2023", "name: mine", "httpPutResponseHopLimit: 3"}, nil},
		"ids stand alone": {
			`apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: a}
spec: {instanceProfile: p, amiSelector: {"aws::name": "x,y", "aws::owners": self}, subnetSelector: {"aws-ids": "subnet-1,subnet-2", team: ml}, securityGroupSelector: {Name: ""}}
`,
			[]string{"amiFamily: AL2", "- name: x", "owner: self", `- name: "y"`, "- id: subnet-1", "- id: subnet-2", "Name: '*'"},
			[]string{"v1 takes an id only on its own: the other keys of spec.subnetSelector are left out"},
		},
		"fields that nobody knows": {`apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: a}
spec: {instanceProfil: p, subnetSelector: {a: b}, securityGroupSelector: {a: b}}
`, []string{"role: KarpenterNodeRole-replace-me"}, []string{`unknown field "spec.instanceProfil"`, "v1 demands a role or an instanceProfile and neither is given: a placeholder is written at spec.role"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Migrate(parse(t, c.text))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range c.want {
				if !strings.Contains(string(m.YAML), line+"\n") {
					t.Errorf("no %q in\n%s", line, m.YAML)
				}
			}
			var blocked []string
			for _, n := range m.Blocked {
				blocked = append(blocked, n.Text)
			}
			if diff := cmp.Diff(c.blocked, blocked); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, notes := Read(parse(t, string(m.YAML))); len(notes) > 0 {
				t.Errorf("what was written is said to be wrong: %q\n%s", said(notes), m.YAML)
			}
		})
	}
}

func TestPoolsThatDisagreeOnTheKubeletGetAClassEach(t *testing.T) {
	pool := func(name, kubelet string) string {
		return `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: ` + name + `}
spec:
  template:
    spec:
      nodeClassRef: {name: shared}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}]
` + kubelet + "---\n"
	}
	text := pool("a", "      kubelet: {maxPods: 10}\n") + pool("b", "      kubelet: {maxPods: 20}\n") + pool("c", "      kubelet: {maxPods: 10}\n") + pool("d", "") +
		`apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: shared}
spec: {amiFamily: AL2023, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}
`
	before, _ := Read(parse(t, text))
	m, err := Migrate(parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	after, notes := Read(parse(t, string(m.YAML)))
	if len(notes) > 0 || len(m.Blocked) > 0 {
		t.Errorf("said %q, blocked %v", said(notes), m.Blocked)
	}
	classes := []string{"EC2NodeClass/shared", "EC2NodeClass/shared-b", "EC2NodeClass/shared", "EC2NodeClass/shared-d"}
	for i, p := range after.Pools {
		if p.NodeClass != classes[i] {
			t.Errorf("pool %s has class %s, want %s", p.Name, p.NodeClass, classes[i])
		}
		if diff := cmp.Diff(before.Pools[i].Kubelet, p.Kubelet); diff != "" {
			t.Errorf("pool %s (-before +after):\n%s", p.Name, diff)
		}
	}
}

func TestAKubeletWithoutItsClassIsNotLostSilently(t *testing.T) {
	m, err := Migrate(parse(t, `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template:
    spec:
      kubelet: {maxPods: 10}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: elsewhere}
      requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := "the kubelet settings of the pool belong on its node class EC2NodeClass/elsewhere, which is not among the files"
	if len(m.Blocked) != 1 || m.Blocked[0].Text != want || m.Blocked[0].Place.Line != 7 {
		t.Errorf("blocked %+v", m.Blocked)
	}
}

func TestWhatStaysWrongIsSaid(t *testing.T) {
	m, err := Migrate(parse(t, strings.Replace(sound, "cpu: 100", "cpu: lots", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Blocked) != 1 || !strings.HasPrefix(m.Blocked[0].Text, `the API server would refuse what is written: spec.limits.cpu: Invalid value: "lots"`) || m.Blocked[0].Place.Line != 12 {
		t.Errorf("blocked %+v", m.Blocked)
	}
}

func TestMigrateWithNothingToDo(t *testing.T) {
	if _, err := Migrate(parse(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")); !errors.Is(err, ErrNothing) {
		t.Errorf("err is %v, want ErrNothing", err)
	}
}
