package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

func TestRequestsAreWhatTheSchedulerCounts(t *testing.T) {
	runtime := "---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\noverhead: {podFixed: {cpu: 250m, memory: 120Mi}}\n"
	for name, c := range map[string]struct {
		spec string
		want model.Resources
	}{
		"containers add up": {
			"  containers:\n  - {name: a, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}\n  - {name: b, image: i, resources: {limits: {cpu: 1}}}\n",
			model.Resources{"cpu": 1500, "memory": 1 << 30},
		},
		"a hungry init container counts by itself": {
			"  initContainers: [{name: a, image: i, resources: {requests: {cpu: 3, memory: 1Gi}}}]\n  containers: [{name: b, image: i, resources: {requests: {cpu: 1, memory: 2Gi}}}]\n",
			model.Resources{"cpu": 3000, "memory": 2 << 30},
		},
		"a sidecar runs beside the others and beside later init containers": {
			"  initContainers:\n  - {name: s, image: i, restartPolicy: Always, resources: {requests: {cpu: 1}}}\n  - {name: a, image: i, resources: {requests: {cpu: 3}}}\n  containers: [{name: b, image: i, resources: {requests: {cpu: 2}}}]\n",
			model.Resources{"cpu": 4000},
		},
		"an init container does not run beside a later sidecar": {
			"  initContainers:\n  - {name: a, image: i, resources: {requests: {cpu: 3}}}\n  - {name: s, image: i, restartPolicy: Always, resources: {requests: {cpu: 1}}}\n  containers: [{name: b, image: i, resources: {requests: {cpu: 1}}}]\n",
			model.Resources{"cpu": 3000},
		},
		"pod-level amounts count instead": {
			"  resources: {requests: {cpu: 5}}\n  containers: [{name: b, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}]\n",
			model.Resources{"cpu": 5000, "memory": 1 << 30},
		},
		"pod-level limits are requests where no container asks": {
			"  resources: {limits: {cpu: 5, memory: 2Gi}}\n  containers: [{name: b, image: i, resources: {requests: {memory: 1Gi}}}]\n",
			model.Resources{"cpu": 5000, "memory": 1 << 30},
		},
		"the runtime class has overhead": {
			"  runtimeClassName: kata\n  containers: [{name: b, image: i, resources: {requests: {cpu: 1}}}]\n",
			model.Resources{"cpu": 1250, "memory": 120 << 20},
		},
		"no amount wraps around": {
			"  containers: [{name: b, image: i, resources: {requests: {cpu: 5E, memory: 8E}}}, {name: c, image: i, resources: {requests: {memory: 8E}}}]\n",
			model.Resources{"cpu": 1 << 50, "memory": 1 << 50},
		},
		"a fraction of a byte is a byte": {
			"  containers: [{name: b, image: i, resources: {requests: {memory: 1500m}}}]\n", model.Resources{"memory": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, pod(c.spec)+runtime)
			spec := only(t, r).Spec
			if len(spec.Refused) > 0 {
				t.Errorf("refused: %q", words(spec))
			}
			if diff := cmp.Diff(c.want.Plus(model.Resources{"pods": 1}, 1), spec.Requests); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHAMiRequestsAreSharesToo(t *testing.T) {
	for name, c := range map[string]struct {
		limits string
		want   []model.DeviceShare
	}{
		"memory of two cards": {"nvidia.com/gpu: 2, nvidia.com/gpumem: 4096, nvidia.com/gpucores: 30", []model.DeviceShare{
			{Resource: "nvidia.com/gpu", Count: 2, PerDevice: model.Resources{model.ShareMemory: 4096, model.ShareCores: 30}},
		}},
		"memory alone is of one card": {"nvidia.com/gpumem: 1000", []model.DeviceShare{
			{Resource: "nvidia.com/gpu", Count: 1, PerDevice: model.Resources{model.ShareMemory: 1000, model.ShareCores: 1}},
		}},
		"a percentage": {"nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50", []model.DeviceShare{
			{Resource: "nvidia.com/gpu", Count: 1, PerDevice: model.Resources{model.SharePercent: 50, model.ShareCores: 1}},
		}},
		"cores alone want all of the memory": {"nvidia.com/gpu: 1, nvidia.com/gpucores: 10", []model.DeviceShare{
			{Resource: "nvidia.com/gpu", Count: 1, PerDevice: model.Resources{model.SharePercent: 100, model.ShareCores: 10}},
		}},
		"all of the memory comes with all of the cores": {"nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 100", []model.DeviceShare{
			{Resource: "nvidia.com/gpu", Count: 1, PerDevice: model.Resources{model.SharePercent: 100, model.ShareCores: 100}},
		}},
		"a whole GPU is no share": {"nvidia.com/gpu: 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, pod(gpus(c.limits)))
			if diff := cmp.Diff(c.want, only(t, r).Spec.Shares); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAffinity(t *testing.T) {
	r, _ := read(t, pod(`  containers: [{name: c, image: i}]
  nodeSelector: {a: b}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: x, operator: In, values: [v, w]}
          matchFields:
          - {key: metadata.name, operator: In, values: [n1]}
        - {}
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 7, preference: {matchExpressions: [{key: x, operator: Exists}]}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 3, podAffinityTerm: {topologyKey: zone, namespaceSelector: {}}}
  topologySpreadConstraints:
  - {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}, nodeTaintsPolicy: Honor}
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
`))
	spec := only(t, r).Spec
	want := model.PodSpec{
		NodeSelector: map[string]string{"a": "b"},
		NodeAffinity: []model.Term{{
			{Key: "x", Operator: model.In, Values: []string{"v", "w"}, Line: 12},
			{Key: constraint.NodeNameField, Operator: model.In, Values: []string{"n1"}, Line: 14},
		}},
		NodePreferred: []model.WeightedTerm{{Weight: 7, Term: model.Term{{Key: "x", Operator: model.Exists, Line: 17}}}},
		PodAffinity: []model.PodTerm{
			{
				Anti: true, TopologyKey: "kubernetes.io/hostname", Namespaces: []string{"default"},
				Selector: model.Selector{All: true, Term: model.Term{{Key: "app", Operator: model.In, Values: []string{"web"}}}},
			},
			{Anti: true, Weight: 3, TopologyKey: "zone", Namespaces: []string{"default", "other"}},
		},
		Spread: []model.Spread{
			{MaxSkew: 2, TopologyKey: "zone", Soft: true, Selector: model.Selector{All: true}, HonorTaints: true, SelectorNamespace: "default"},
			{MaxSkew: 1, TopologyKey: "zone", MinDomains: 3, IgnoreAffinity: true, SelectorNamespace: "default"},
		},
	}
	got := model.PodSpec{
		NodeSelector: spec.NodeSelector, NodeAffinity: spec.NodeAffinity, NodePreferred: spec.NodePreferred,
		PodAffinity: spec.PodAffinity, Spread: spec.Spread,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATermThatAsksForNothingMatchesNoNode(t *testing.T) {
	r, _ := read(t, pod("  containers: [{name: c, image: i}]\n  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}\n"))
	spec := only(t, r).Spec
	if _, ok := constraint.MatchNode(spec, constraint.Named(map[string]string{"a": "b"}, "n")); ok {
		t.Errorf("an empty term matched a node: %v", spec.NodeAffinity)
	}
}

func TestLabelKeysBecomePartOfTheSelector(t *testing.T) {
	r, _ := read(t, lines("apiVersion: apps/v1", "kind: Deployment", "metadata: {name: d}", "spec:", "  selector: {matchLabels: {app: d}}", "  template:",
		"    metadata: {labels: {app: d, tier: x}}", "    spec:", "      containers: [{name: c, image: i}]",
		"      topologySpreadConstraints:", "      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [pod-template-hash, absent]}",
		"      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}, mismatchLabelKeys: [tier]}]}}"))
	spec := only(t, r).Spec
	hash := spec.Labels["pod-template-hash"]
	if hash == "" {
		t.Fatal("the pods have no label pod-template-hash, which the constraint asks for")
	}
	want := model.Term{{Key: "pod-template-hash", Operator: model.In, Values: []string{hash}}}
	if diff := cmp.Diff(want, spec.Spread[0].Selector.Term); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
	want = model.Term{{Key: "tier", Operator: model.NotIn, Values: []string{"x"}}}
	if diff := cmp.Diff(want, spec.PodAffinity[0].Selector.Term); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if len(spec.Refused) > 0 {
		t.Errorf("refused: %q", words(spec))
	}
}

func TestHostPortsAreThoseThatTheSchedulerKeepsApart(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want []model.HostPort
	}{
		"a port of the pod's own network is none": {"  containers: [{name: c, image: i, ports: [{containerPort: 80}]}]\n", nil},
		"a host port":                      {"  containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 8080, hostIP: 10.0.0.1, protocol: UDP}]}]\n", []model.HostPort{{IP: "10.0.0.1", Port: 8080, Protocol: "UDP"}}},
		"every port on the host's network": {"  hostNetwork: true\n  containers: [{name: c, image: i, ports: [{containerPort: 80}]}]\n", []model.HostPort{{Port: 80, Protocol: "TCP"}}},
		"a sidecar's, but no init container's": {
			"  initContainers: [{name: a, image: i, ports: [{containerPort: 1, hostPort: 1}]}, {name: b, image: i, restartPolicy: Always, ports: [{containerPort: 2, hostPort: 2}]}]\n  containers: [{name: c, image: i}]\n",
			[]model.HostPort{{Port: 2, Protocol: "TCP"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := read(t, pod(c.spec))
			spec := only(t, r).Spec
			if diff := cmp.Diff(c.want, spec.HostPorts); diff != "" || len(spec.Refused) > 0 {
				t.Errorf("(-want +got):\n%s%q", diff, words(spec))
			}
		})
	}
}

func TestPriority(t *testing.T) {
	classes := lines("---", "apiVersion: scheduling.k8s.io/v1", "kind: PriorityClass", "metadata: {name: high}", "value: 1000",
		"---", "apiVersion: scheduling.k8s.io/v1", "kind: PriorityClass", "metadata: {name: normal}", "value: 10", "globalDefault: true")
	container := "  containers: [{name: c, image: i}]\n"
	for name, c := range map[string]struct {
		text string
		want int32
		code string
	}{
		"a class":                        {pod(container+"  priorityClassName: high\n") + classes, 1000, ""},
		"the default class":              {pod(container) + classes, 10, ""},
		"no class":                       {pod(container), 0, ""},
		"a class of Kubernetes' own":     {pod(container + "  priorityClassName: system-node-critical\n"), 2000001000, ""},
		"a class that is not given":      {pod(container + "  priorityClassName: lost\n"), 0, "missing-class"},
		"a number that the class denies": {pod(container+"  priorityClassName: high\n  priority: 5\n") + classes, 1000, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			r, notes := read(t, c.text)
			if got := only(t, r).Spec.Priority; got != c.want {
				t.Errorf("priority %d, want %d", got, c.want)
			}
			if c.code == "" && len(notes) > 0 || c.code != "" && len(with(notes, c.code)) != 1 {
				t.Errorf("notes: %q", say(notes))
			}
		})
	}
}

func TestRuntimeClassSchedules(t *testing.T) {
	class := lines("---", "apiVersion: node.k8s.io/v1", "kind: RuntimeClass", "metadata: {name: nvidia}", "handler: nvidia",
		"scheduling: {nodeSelector: {gpu: \"yes\"}, tolerations: [{key: gpu, operator: Exists}]}")
	r, _ := read(t, pod("  runtimeClassName: nvidia\n  containers: [{name: c, image: i}]\n")+class)
	spec := only(t, r).Spec
	if spec.NodeSelector["gpu"] != "yes" || len(spec.Tolerations) != 1 || spec.Tolerations[0].Key != "gpu" {
		t.Errorf("selector %v, tolerations %v", spec.NodeSelector, spec.Tolerations)
	}
	r, _ = read(t, pod("  runtimeClassName: nvidia\n  nodeSelector: {gpu: \"no\"}\n  containers: [{name: c, image: i}]\n")+class)
	want := []string{"spec.nodeSelector: conflict: runtimeClass.scheduling.nodeSelector[gpu] = yes; pod.spec.nodeSelector[gpu] = no"}
	if diff := cmp.Diff(want, words(only(t, r).Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, notes := read(t, pod("  runtimeClassName: nvidia\n  containers: [{name: c, image: i}]\n"))
	if len(with(notes, "missing-class")) != 1 {
		t.Errorf("notes: %q", say(notes))
	}
}

func TestDeadNamesOfKarpenter(t *testing.T) {
	r, notes := read(t, lines("apiVersion: v1", "kind: Pod", "metadata:", "  name: p", "  annotations:", "    karpenter.sh/do-not-evict: \"true\"", "spec:",
		"  nodeSelector:", "    karpenter.sh/provisioner-name: gpu", "  containers: [{name: c, image: i}]"))
	spec := only(t, r).Spec
	if diff := cmp.Diff(map[string]string{"karpenter.sh/nodepool": "gpu"}, spec.NodeSelector); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if spec.SafeToMove {
		t.Error("the pod asks not to be moved")
	}
	want := []string{
		"error dead-label in.yaml:9 spec.nodeSelector[karpenter.sh/provisioner-name]: no node carries the label karpenter.sh/provisioner-name since Karpenter v1beta1: the pod would stay pending; it is read as karpenter.sh/nodepool -> write karpenter.sh/nodepool",
		`warning dead-annotation in.yaml:6 metadata.annotations[karpenter.sh/do-not-evict]: Karpenter reads karpenter.sh/do-not-evict no more since v1beta1; it is read as karpenter.sh/do-not-disrupt -> write karpenter.sh/do-not-disrupt: "true"`,
	}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSafeToMove(t *testing.T) {
	for value, want := range map[string]bool{"true": false, "false": true, "10m": false, "soon": true, "-5m": true} {
		r, notes := read(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {karpenter.sh/do-not-disrupt: \""+value+"\"}}\nspec: {containers: [{name: c, image: i}]}\n")
		if got := only(t, r).Spec.SafeToMove; got != want {
			t.Errorf("%q: safe to move is %v", value, got)
		}
		if odd := value == "soon" || value == "-5m"; odd != (len(with(notes, "annotation")) == 1) {
			t.Errorf("%q: %q", value, say(notes))
		}
	}
}

func TestWhatAContainerMaySee(t *testing.T) {
	r, _ := read(t, lines("apiVersion: v1", "kind: Pod", "metadata: {name: p, namespace: team}", "spec:", "  containers:", "  - name: c", "    image: cuda:12",
		"    env:", "    - name: NVIDIA_VISIBLE_DEVICES", "      value: all", "    - name: X", "      valueFrom: {secretKeyRef: {name: s, key: k}}",
		"    envFrom: [{configMapRef: {name: m}}, {secretRef: {name: s}}]", "    securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN]}}"))
	want := []model.Container{{
		Name: "c", Image: "cuda:12", Privileged: true, Caps: []string{"SYS_ADMIN"},
		Env:     []model.Env{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all", Line: 9}, {Name: "X", From: "secretKeyRef", Line: 11}},
		EnvFrom: []string{"ConfigMap team/m", "Secret team/s"},
	}}
	if diff := cmp.Diff(want, only(t, r).Spec.Containers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnAmountOfDevicesWithASuffixIsNamed(t *testing.T) {
	_, notes := read(t, pod(gpus("nvidia.com/gpu: 1Gi")))
	want := []string{"warning amount in.yaml:6 spec.containers[0].resources.limits[nvidia.com/gpu]: 1Gi of nvidia.com/gpu is 1073741824 of them: no node has so many -> write the number of devices without a suffix"}
	if diff := cmp.Diff(want, say(notes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAWindowsPodNeedsAWindowsNode(t *testing.T) {
	r, _ := read(t, pod("  os: {name: windows}\n  containers: [{name: c, image: i}]\n"))
	if got := only(t, r).Spec.NodeSelector[model.LabelOS]; got != "windows" {
		t.Errorf("the pod selects system %q", got)
	}
}

func TestGatesSchedulersAndClaims(t *testing.T) {
	r, _ := read(t, pod("  schedulerName: volcano\n  schedulingGates: [{name: wait.example.com/x}]\n  resourceClaims: [{name: gpu, resourceClaimTemplateName: t}]\n  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]\n"))
	spec := only(t, r).Spec
	if spec.SchedulerName != "volcano" || len(spec.Gates) != 1 || len(spec.Claims) != 1 || len(spec.Refused) > 0 {
		t.Errorf("%q %q %q %q", spec.SchedulerName, spec.Gates, spec.Claims, words(spec))
	}
}

func TestDaemonSetPodsTolerateWhatTheirControllerAdds(t *testing.T) {
	r, _ := read(t, workload("DaemonSet", "d", forever)+workload("DaemonSet", "net", `  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}`))
	if len(r.Pods) != 0 || len(r.DaemonSets) != 2 {
		t.Fatalf("%d pods, %d daemonsets", len(r.Pods), len(r.DaemonSets))
	}
	want := []model.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/disk-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/pid-pressure", Operator: "Exists", Effect: "NoSchedule"},
		{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoSchedule"},
	}
	if diff := cmp.Diff(want, r.DaemonSets[0].Spec.Tolerations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = append(want, model.Toleration{Key: "node.kubernetes.io/network-unavailable", Operator: "Exists", Effect: "NoSchedule"})
	if diff := cmp.Diff(want, r.DaemonSets[1].Spec.Tolerations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
