package rule

import (
	"testing"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

var oneGPU = model.Resources{model.NvidiaGPU: 1}

func env(pairs ...string) []model.Env {
	var out []model.Env
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, model.Env{Name: pairs[i], Value: pairs[i+1], Line: 20 + i})
	}
	return out
}

func tolerates(tols ...model.Toleration) func(*model.PodSpec) {
	return func(p *model.PodSpec) { p.Tolerations = tols }
}

func TestEnvVisibleDevices(t *testing.T) {
	system := pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "all")})
	system.Pods[0].Namespace = "gpu-operator"
	daemon := pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "all")})
	daemon.Pods[0].Owner = "DaemonSet team-a/dcgm"
	run(t, "env-visible-devices", map[string]scenario{
		"all GPUs without a limit": {
			in: pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "all")}),
			want: []said{{
				"container c sets NVIDIA_VISIBLE_DEVICES to all: it uses GPUs of its node that it did not ask for and that others are given",
				"take it away and ask for nvidia.com/gpu in limits",
			}},
		},
		"with a limit it counts all the same": {
			in: pod(model.Container{Name: "c", Limits: oneGPU, Env: env(guard.VisibleDevices, "0")}),
			want: []said{{
				"container c sets NVIDIA_VISIBLE_DEVICES to 0: it sees those GPUs rather than the ones it is given for its limit",
				"take it away: the plugin sets it for a container with a GPU limit",
			}},
		},
		"from a ConfigMap": {
			in: pod(model.Container{Name: "c", Env: []model.Env{{Name: guard.VisibleDevices, From: "configMapKeyRef"}}}),
			want: []said{{
				"container c takes NVIDIA_VISIBLE_DEVICES from configMapKeyRef: whoever writes that decides which GPUs it sees, whatever it asked for",
				"take it away and ask for nvidia.com/gpu in limits",
			}},
		},
		"by expansion": {
			in: pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "$(GPUS)")}),
			want: []said{{
				"container c sets NVIDIA_VISIBLE_DEVICES to $(GPUS): what that stands for decides which GPUs it sees, whatever it asked for",
				"take it away and ask for nvidia.com/gpu in limits",
			}},
		},
		"given twice, the last counts": {
			in: pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "void", guard.VisibleDevices, "all")}),
			want: []said{{
				"container c sets NVIDIA_VISIBLE_DEVICES to all: it uses GPUs of its node that it did not ask for and that others are given",
				"take it away and ask for nvidia.com/gpu in limits",
			}},
		},
		"void":                          {in: pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, " void ")})},
		"none":                          {in: pod(model.Container{Name: "c", Env: env(guard.VisibleDevices, "none")})},
		"another variable":              {in: pod(model.Container{Name: "c", Env: env("nvidia_visible_devices", "all")})},
		"a namespace of NVIDIA's own":   {in: system},
		"a DaemonSet, as exporters are": {in: daemon},
	})
}

func TestEnvLineIsTheVariables(t *testing.T) {
	n := byName(t, "env-visible-devices").Run(pod(model.Container{Name: "c", Env: env("A", "b", guard.VisibleDevices, "all")}))
	if len(n) != 1 || n[0].Place.Line != 22 || n[0].Place.Object != "Pod team-a/app" {
		t.Errorf("got %+v, want line 22 of Pod team-a/app", n)
	}
}

func TestEnvCUDAVersion(t *testing.T) {
	run(t, "env-cuda-version", map[string]scenario{
		"alone": {
			in: pod(model.Container{Name: "c", Env: env("CUDA_VERSION", "12.2")}),
			want: []said{{
				"container c sets CUDA_VERSION and has no GPU limit: the runtime takes it for an old CUDA image and shows it every GPU of its node",
				"rename the variable, or set NVIDIA_VISIBLE_DEVICES: void beside it",
			}},
		},
		"with the variable of newer images": {in: pod(model.Container{Name: "c", Env: env("CUDA_VERSION", "12.2", "NVIDIA_REQUIRE_CUDA", "cuda>=12")})},
		"with the devices pinned":           {in: pod(model.Container{Name: "c", Env: env("CUDA_VERSION", "12.2", guard.VisibleDevices, "void")})},
		"with a GPU limit":                  {in: pod(model.Container{Name: "c", Limits: oneGPU, Env: env("CUDA_VERSION", "12.2")})},
	})
}

func TestEnvMIGDevices(t *testing.T) {
	run(t, "env-mig-devices", map[string]scenario{
		"set": {
			in: pod(model.Container{Name: "c", Env: env("NVIDIA_MIG_CONFIG_DEVICES", "all")}),
			want: []said{{
				"container c sets NVIDIA_MIG_CONFIG_DEVICES, which is for MIG management: it fails to start without SYS_ADMIN and reaches every GPU with it",
				"take it away; leave MIG to mig-parted's DaemonSet",
			}},
		},
		"another NVIDIA variable": {in: pod(model.Container{Name: "c", Env: env("NVIDIA_DRIVER_CAPABILITIES", "compute")})},
	})
}

func TestSysAdminGPUEnv(t *testing.T) {
	want := []said{{
		"container c has SYS_ADMIN and names GPUs in its environment: it gets them even on nodes that refuse this to unprivileged containers",
		"drop the capability, or the variable",
	}}
	run(t, "sys-admin-gpu-env", map[string]scenario{
		"the capability":                    {in: pod(model.Container{Name: "c", Caps: []string{"SYS_ADMIN"}, Env: env(guard.VisibleDevices, "all")}), want: want},
		"its long name, and the old marker": {in: pod(model.Container{Name: "c", Caps: []string{"CAP_SYS_ADMIN"}, Env: env("CUDA_VERSION", "12")}), want: want},
		"every capability":                  {in: pod(model.Container{Name: "c", Caps: []string{"ALL"}, Env: env(guard.VisibleDevices, "all")}), want: want},
		"the capability alone":              {in: pod(model.Container{Name: "c", Caps: []string{"SYS_ADMIN"}})},
		"another capability":                {in: pod(model.Container{Name: "c", Caps: []string{"NET_ADMIN"}, Env: env(guard.VisibleDevices, "all")})},
		"privileged, which says more":       {in: pod(model.Container{Name: "c", Privileged: true, Caps: []string{"ALL"}, Env: env(guard.VisibleDevices, "all")})},
	})
}

func TestPrivileged(t *testing.T) {
	c := model.Container{Name: "c", Privileged: true}
	want := []said{{"container c is privileged: it sees every GPU of a GPU node, whatever it asks for", "drop privileged; a GPU needs only its limit"}}
	at := func(s model.Snapshot, pools ...model.Pool) model.Snapshot {
		s.Pools = pools
		return s
	}
	onNode := pod(c)
	onNode.Nodes = []model.Node{{Name: "n", Type: "g4dn.xlarge"}}
	run(t, "privileged", map[string]scenario{
		"no GPU pool in sight":           {in: pod(c), want: want},
		"a GPU pool that it tolerates":   {in: at(pod(c, tolerates(model.Toleration{Operator: "Exists"})), pool("gpu")), want: want},
		"a GPU node without a taint":     {in: onNode, want: want},
		"a GPU pool whose taint bars it": {in: at(pod(c), pool("gpu"))},
		"a GPU pool that it does not select": {in: at(pod(c, tolerates(model.Toleration{Operator: "Exists"}), func(p *model.PodSpec) {
			p.NodeSelector = map[string]string{model.LabelNodePool: "web"}
		}), pool("gpu"))},
		"not privileged": {in: pod(model.Container{Name: "c"})},
	})
}

func TestCPUPodOnGPUNode(t *testing.T) {
	at := func(s model.Snapshot, pools ...model.Pool) model.Snapshot {
		s.Pools = pools
		return s
	}
	gpu := model.Toleration{Key: model.NvidiaGPU, Operator: "Exists", Effect: model.NoSchedule}
	everything := model.Toleration{Operator: "Exists"}
	say := func(what string) []said {
		return []said{{"the pod asks for no GPU and tolerates " + what + ": it can take room on GPU nodes", "drop the toleration"}}
	}
	run(t, "cpu-pod-on-gpu-node", map[string]scenario{
		"the GPU taint":                        {in: pod(model.Container{}, tolerates(gpu)), want: say("nvidia.com/gpu")},
		"every taint":                          {in: at(pod(model.Container{}, tolerates(everything)), pool("gpu")), want: say("every taint")},
		"a GPU pool's own taint":               {in: at(pod(model.Container{}, tolerates(model.Toleration{Key: "sku", Value: "gpu"})), pool("gpu", tainted(taint("sku", "gpu")))), want: say("sku")},
		"every taint, where there are no GPUs": {in: pod(model.Container{}, tolerates(everything))},
		"a pod with a GPU":                     {in: pod(model.Container{Limits: oneGPU}, tolerates(gpu))},
		"only evictions are tolerated":         {in: at(pod(model.Container{}, tolerates(model.Toleration{Operator: "Exists", Effect: model.NoExecute})), pool("gpu"))},
		"a selector that keeps it away": {in: at(pod(model.Container{}, tolerates(everything), func(p *model.PodSpec) {
			p.NodeSelector = map[string]string{model.LabelNodePool: "web"}
		}), pool("gpu"))},
	})
}

func TestGPUZero(t *testing.T) {
	zero := model.Container{Name: "c", Limits: model.Resources{model.NvidiaGPU: 0}}
	beside := pod(model.Container{Limits: oneGPU})
	beside.Pods[0].Spec.Containers = append(beside.Pods[0].Spec.Containers, zero)
	run(t, "gpu-zero", map[string]scenario{
		"an entry of 0": {
			in:   pod(zero),
			want: []said{{"the pod asks for 0 of nvidia.com/gpu: it gets no GPU, and still the toleration of GPU nodes", "take the entry away"}},
		},
		"a sidecar with 0 beside a container with 1": {in: beside},
		"no entry": {in: pod(model.Container{})},
	})
}

func TestGPUAmount(t *testing.T) {
	amount := func(name string, n int64) model.Snapshot {
		return pod(model.Container{Name: "c", Limits: model.Resources{name: n}})
	}
	run(t, "gpu-amount", map[string]scenario{
		"1k":                     {in: amount(model.NvidiaGPU, 1000), want: []said{{"container c asks for 1000 of nvidia.com/gpu: no node has as many", "write the number of GPUs without a suffix"}}},
		"1Gi":                    {in: amount("nvidia.com/mig-1g.5gb", 1<<30), want: []said{{"container c asks for 1073741824 of nvidia.com/mig-1g.5gb: no node has as many", "write the number of GPUs without a suffix"}}},
		"8":                      {in: amount(model.NvidiaGPU, 8)},
		"memory of a GPU in MiB": {in: amount("nvidia.com/gpumem", 20000)},
	})
}
