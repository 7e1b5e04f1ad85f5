package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	library "tags.cncf.io/container-device-interface/pkg/cdi"
)

// The configs under which NVIDIA's plugin v0.20.0 was recorded.
const (
	plain  = "version: v1\nflags:\n  migStrategy: none\n"
	sliced = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: false\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 10\n"
	alone  = "version: v1\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 10\n"
)

const (
	gpu0 = "GPU-4d4f434b-0000-0000-0000-000000000000"
	gpu1 = "GPU-4d4f434b-0000-0000-0000-000000000001"
)

// An ask is one request: how many devices, how many of them came from the two
// GPUs (the larger number first), and what Allocate said.
type ask struct {
	size   int
	perGPU string
	err    string // of Allocate, "" for an answer
}

// envvar is the answer by variable for the chosen GPUs.
func envvar(gpus []string) *v1beta1.ContainerAllocateResponse {
	return &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(gpus, ",")}}
}

// What NVIDIA's plugin v0.20.0 was seen to do on two A100, and so does Kerf.
// Which of two equally loaded GPUs comes first differs from run to run of the
// recordings, so the numbers are compared.
func TestSameAnswersAsTheRealPlugin(t *testing.T) {
	replicas := func(extra string) string { return "sharing:\n  timeSlicing:\n    resources:\n" + extra }
	for name, test := range map[string]struct {
		config   string
		flags    map[string]string
		resource string
		devices  int
		asks     []ask
		answer   func(gpus []string) *v1beta1.ContainerAllocateResponse // nil for envvar
	}{
		"default": {config: plain, resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}}},
		"shared_gpu": {
			config: sliced, resource: "nvidia.com/gpu", devices: 20,
			asks: []ask{{1, "1", ""}, {1, "1", ""}, {2, "1+1", ""}, {4, "2+2", ""}},
		},
		"renamed": {
			config: alone, resource: "nvidia.com/gpu.shared", devices: 20,
			asks: []ask{{1, "1", ""}, {2, "1+1", `invalid allocation request for "nvidia.com/gpu.shared": invalid request: maximum request size for shared resources is 1; found 2`}},
		},
		"no version, no prefix":        {config: replicas("    - name: gpu\n      replicas: 4\n"), resource: "nvidia.com/gpu", devices: 8, asks: []ask{{1, "1", ""}}},
		"an empty file":                {config: "", resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}}},
		"a resource that is not there": {config: replicas("    - name: nvidia.com/mig-1g.5gb\n      replicas: 4\n"), resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}}},
		"by index": {
			config: sliced, flags: map[string]string{"device-id-strategy": "index"}, resource: "nvidia.com/gpu", devices: 20, asks: []ask{{2, "1+1", ""}},
			answer: func(gpus []string) *v1beta1.ContainerAllocateResponse { return envvar(indices(gpus)) },
		},
		"by mounts, with device nodes": {
			config: plain, flags: map[string]string{"device-list-strategy": "volume-mounts", "pass-device-specs": "true", "dev-root": "/run/nvidia/driver"},
			resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}},
			answer: func(gpus []string) *v1beta1.ContainerAllocateResponse {
				node := "/dev/nvidia" + indices(gpus)[0]
				return &v1beta1.ContainerAllocateResponse{
					Envs:    map[string]string{"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"},
					Mounts:  []*v1beta1.Mount{{ContainerPath: "/var/run/nvidia-container-devices/" + gpus[0], HostPath: "/dev/null"}},
					Devices: []*v1beta1.DeviceSpec{{ContainerPath: node, HostPath: "/run/nvidia/driver" + node, Permissions: "rw"}},
				}
			},
		},
		"packed": {
			config: sliced, flags: map[string]string{"shared-devices-allocation-policy": "packed"}, resource: "nvidia.com/gpu", devices: 20,
			asks: []ask{{4, "4", ""}, {8, "6+2", ""}},
		},
		"companions": {
			config: plain, flags: map[string]string{"gds-enabled": "true", "mofed-enabled": "true", "gdrcopy-enabled": "true"}, resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}},
			answer: func(gpus []string) *v1beta1.ContainerAllocateResponse {
				out := envvar(gpus)
				out.Envs["NVIDIA_GDS"], out.Envs["NVIDIA_MOFED"], out.Envs["NVIDIA_GDRCOPY"] = "enabled", "enabled", "enabled"
				return out
			},
		},
		"CDI in the CRI's field": {
			config: sliced, flags: map[string]string{"device-list-strategy": "cdi-cri"}, resource: "nvidia.com/gpu", devices: 20, asks: []ask{{1, "1", ""}, {2, "1+1", ""}},
			answer: func(gpus []string) *v1beta1.ContainerAllocateResponse {
				out := &v1beta1.ContainerAllocateResponse{}
				for _, g := range gpus {
					out.CdiDevices = append(out.CdiDevices, &v1beta1.CDIDevice{Name: "k8s.device-plugin.nvidia.com/gpu=" + g})
				}
				return out
			},
		},
		"CDI in annotations beside the variable; too few GPUs left": {
			config: plain, flags: map[string]string{"device-list-strategy": "cdi-annotations,envvar"}, resource: "nvidia.com/gpu", devices: 2, asks: []ask{{1, "1", ""}, {2, "", ""}},
			answer: func(gpus []string) *v1beta1.ContainerAllocateResponse {
				out := envvar(gpus)
				if len(gpus) > 0 {
					out.Annotations = map[string]string{"cdi.k8s.io/nvidia-device-plugin_": "k8s.device-plugin.nvidia.com/gpu=" + gpus[0]}
				}
				return out
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "mock")
			r.config(test.config)
			for flag, value := range test.flags {
				r.serve.Given[flag] = value
			}
			r.start()
			r.sees(fmt.Sprintf("%s %d/%d", strings.TrimPrefix(test.resource, "nvidia.com/"), test.devices, test.devices))
			r.registered(test.resource)
			if test.answer == nil {
				test.answer = envvar
			}
			r.asks(test.resource, test.asks, test.answer)
			_, err := r.kubelet.Allocate(r.ctx, test.resource, []string{"GPU-nope"})
			if want := fmt.Sprintf("rpc error: code = Unknown desc = invalid allocation request for %q: invalid request: unknown device: GPU-nope", test.resource); err == nil || err.Error() != want {
				t.Errorf("an unknown device: %v", err)
			}
		})
	}
}

// indices are the positions of the two GPUs.
func indices(gpus []string) (out []string) {
	for _, g := range gpus {
		out = append(out, g[len(g)-1:])
	}
	return out
}

// registered checks the one registration and the form of the ids.
func (r *rig) registered(resource string) {
	r.Helper()
	want := []*v1beta1.RegisterRequest{{
		Version: "v1beta1", Endpoint: "nvidia-" + strings.TrimPrefix(resource, "nvidia.com/") + ".sock", ResourceName: resource,
		Options: &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true},
	}}
	if diff := cmp.Diff(want, r.kubelet.Registrations(), protocmp.Transform()); diff != "" {
		r.Errorf("registration (-want +got):\n%s", diff)
	}
	list := r.kubelet.Devices(resource)
	n := len(list) / 2
	for i, d := range list {
		id := []string{gpu0, gpu1}[i/n]
		if n > 1 {
			id += fmt.Sprintf("::%d", i%n)
		}
		if d.ID != id || d.Topology != nil {
			r.Errorf("device %d is %v, want %s without topology", i, d, id)
		}
	}
}

// asks makes requests in turn, as a kubelet would, over what is still free.
func (r *rig) asks(resource string, asks []ask, answer func([]string) *v1beta1.ContainerAllocateResponse) {
	r.Helper()
	var free []string
	for _, d := range r.kubelet.Devices(resource) {
		free = append(free, d.ID)
	}
	for i, a := range asks {
		ids, err := r.kubelet.Prefer(r.ctx, resource, free, nil, a.size)
		if err != nil {
			r.Fatalf("ask %d: %v", i, err)
		}
		gpus, counts := []string{}, map[string]int{}
		for _, id := range ids {
			uuid, _, _ := strings.Cut(id, "::")
			if counts[uuid]++; counts[uuid] == 1 {
				gpus = append(gpus, uuid)
			}
		}
		if by := byGPU(counts); by != a.perGPU {
			r.Errorf("ask %d: %d devices came as %s by GPU, on record %s", i, a.size, by, a.perGPU)
		}
		got, err := r.kubelet.Allocate(r.ctx, resource, ids)
		if a.err != "" || err != nil {
			if err == nil || err.Error() != "rpc error: code = Unknown desc = "+a.err {
				r.Errorf("ask %d: error %v, on record %s", i, err, a.err)
			}
			continue
		}
		if diff := cmp.Diff(answer(gpus), withoutRandom(got), protocmp.Transform()); diff != "" {
			r.Errorf("ask %d (-on record +got):\n%s", i, diff)
		}
		free = slices.DeleteFunc(free, func(id string) bool { return slices.Contains(ids, id) })
	}
}

func byGPU(counts map[string]int) string {
	a, b := max(counts[gpu0], counts[gpu1]), min(counts[gpu0], counts[gpu1])
	switch {
	case a == 0:
		return ""
	case b == 0:
		return fmt.Sprint(a)
	}
	return fmt.Sprintf("%d+%d", a, b)
}

// withoutRandom cuts the random end off the key of the CDI annotation.
func withoutRandom(r *v1beta1.ContainerAllocateResponse) *v1beta1.ContainerAllocateResponse {
	for key, value := range r.Annotations {
		if at := strings.LastIndexByte(key, '_'); at >= 0 {
			delete(r.Annotations, key)
			r.Annotations[key[:at+1]] = value
		}
	}
	return r
}

// What NVIDIA's plugin refuses on record, and so does Kerf, with a line.
func TestRefusesWhatTheRealPluginRefuses(t *testing.T) {
	entry := func(section, text string) string {
		return "version: v1\nsharing:\n  " + section + ":\n    resources:\n    - " + text + "\n"
	}
	for name, test := range map[string]struct {
		config string
		flags  map[string]string
		err    string
	}{
		"a count as a string":     {config: entry("timeSlicing", "{name: nvidia.com/gpu, replicas: \"10\"}"), err: `config.yaml:5: sharing.timeSlicing.resources[0].replicas: expected a number, found the string "10"; write 10 without quotes`},
		"an empty section":        {config: "version: v1\nsharing:\n  timeSlicing: {}\n", err: "config.yaml:3: sharing.timeSlicing: no resources are listed, which the plugin refuses; list resources under it, or remove sharing.timeSlicing"},
		"a foreign vendor":        {config: entry("timeSlicing", "{name: amd.com/gpu, replicas: 4}"), err: "config.yaml:5: sharing.timeSlicing.resources[0].name: amd.com/gpu is not NVIDIA's; the plugin advertises names under nvidia.com/ only; use a name under nvidia.com/, or remove the entry"},
		"an unknown version":      {config: "version: v2\n", err: `config.yaml:1: version: unknown version the string "v2"; the device plugin knows v1 only; write version: v1`},
		"MPS without its root":    {config: entry("mps", "{name: nvidia.com/gpu, replicas: 10}"), err: "using MPS requires --mps-root to be specified"},
		"an unknown strategy":     {config: plain, flags: map[string]string{"device-list-strategy": "foo"}, err: "invalid --device-list-strategy option on the command line: invalid strategy: foo"},
		"a key in the wrong case": {config: "version: v1\nsharing:\n  timeslicing:\n    resources:\n    - name: nvidia.com/gpu\n      replica: 4\n", err: "config.yaml:6: sharing.timeSlicing.resources[0].replica: unknown key replica, which the plugin ignores; read as replicas; write replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "mock")
			r.config(test.config)
			for flag, value := range test.flags {
				r.serve.Given[flag] = value
			}
			if got := r.fails(); !strings.Contains(got, test.err) {
				t.Errorf("ended with %q, want %q", got, test.err)
			}
			if entries, err := os.ReadDir(r.dir); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "nvidia-") }) {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
	}
}

// Where Kerf differs from the recordings, on purpose; docs/compatibility.md
// gives the reasons.
func TestDiffersFromTheRealPlugin(t *testing.T) {
	entry := func(lines ...string) string {
		return "version: v1\nsharing:\n  timeSlicing:\n    resources:\n" + strings.Join(lines, "")
	}
	two := entry("    - name: nvidia.com/gpu\n      replicas: 4\n", "    - name: nvidia.com/gpu\n      replicas: 2\n")
	misspelt := strings.Replace(entry("    - name: nvidia.com/gpu\n      replicas: 4\n"), "timeSlicing", "timeSlicng", 1)
	both := "version: v1\nsharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 3\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
	for name, test := range map[string]struct {
		config  string
		lenient bool
		sees    string
		err     string
		warns   string
	}{
		"devices and rename are honoured, not dropped": {config: entry("    - name: nvidia.com/gpu\n      rename: nvidia.com/gpu.small\n      devices: [0]\n      replicas: 4\n"), sees: "gpu 1/1, gpu.small 4/4"},
		"a device by its UUID":                         {config: entry("    - name: nvidia.com/gpu\n      devices: [" + gpu1 + "]\n      replicas: 4\n"), sees: "gpu 5/5"},
		"one replica is not shared, no error":          {config: entry("    - name: nvidia.com/gpu\n      replicas: 1\n"), sees: "gpu 2/2"},
		"a resource twice is an error":                 {config: two, err: "config.yaml:7: sharing.timeSlicing.resources[1]: nvidia.com/gpu is listed twice; the larger number of replicas counts, 4; remove one of the entries"},
		"a resource twice, leniently":                  {config: two, lenient: true, sees: "gpu 8/8", warns: "is listed twice"},
		"a misspelt key is an error":                   {config: misspelt, err: "config.yaml:3: sharing.timeSlicng: unknown key timeSlicng, which the plugin ignores; read as timeSlicing; write timeSlicing"},
		"a misspelt key, leniently, is what was meant": {config: misspelt, lenient: true, sees: "gpu 8/8", warns: "unknown key timeSlicng"},
		"both ways of sharing are an error":            {config: both, err: "config.yaml:8: sharing.timeSlicing: timeSlicing and mps are both set: mps wins and timeSlicing is ignored; remove sharing.timeSlicing or sharing.mps"},
		"a repeated key is an error":                   {config: plain + "flags: {}\n", err: "config.yaml:4: flags: flags is given twice, on lines 2 and 4; the second one counts; remove line 2 or line 4"},
		"what is no YAML is an error":                  {config: "version: [\n", err: "config.yaml:"},
		"more devices than the kubelet can be told": {
			config: entry("    - name: nvidia.com/gpu\n      replicas: 60000\n"), err: "the list of 120000 devices takes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "mock")
			r.config(test.config)
			r.serve.Source.Lenient = test.lenient
			if test.err != "" {
				if got := r.fails(); !strings.Contains(got, test.err) {
					t.Errorf("ended with %q, want %q", got, test.err)
				}
				return
			}
			r.start()
			r.sees(test.sees)
			if err := r.stop(); err != nil { // after which everything is logged
				t.Error(err)
			}
			if test.warns != "" && !strings.Contains(r.log.String(), test.warns) {
				t.Errorf("no warning of %q", test.warns)
			}
		})
	}
}

// The recorded sequence: a config is replaced behind a link, twice, then the
// kubelet restarts.
func TestReloadAndKubeletRestart(t *testing.T) {
	r := newRig(t, "mock")
	for name, text := range map[string]string{"default": plain, "shared_gpu": sliced, "renamed": alone} {
		r.write(filepath.Join(r.dir, "available", name), text)
	}
	r.serve.Source.File = filepath.Join(r.dir, "config", "config.yaml")
	link := func(name string) {
		t.Helper()
		tmp := r.serve.Source.File + ".new"
		if err := os.MkdirAll(filepath.Dir(tmp), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(r.dir, "available", name), tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, r.serve.Source.File); err != nil {
			t.Fatal(err)
		}
	}
	link("default")
	r.start()
	r.sees("gpu 2/2")
	link("shared_gpu") // noticed by itself
	r.sees("gpu 20/20")
	link("renamed")
	r.reload <- struct{}{} // SIGHUP
	r.sees("gpu.shared 20/20")
	r.kubelet.Stop()
	r.boot()
	r.sees("gpu.shared 20/20")
	sockets := func() (out []string) {
		found, err := filepath.Glob(filepath.Join(r.dir, "*.sock"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, filepath.Base(f))
		}
		return out
	}
	if diff := cmp.Diff([]string{"kubelet.sock", "nvidia-gpu.shared.sock"}, sockets()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"kubelet.sock"}, sockets()); diff != "" {
		t.Errorf("sockets after the end (-want +got):\n%s", diff)
	}
}

// The recorded spec: its file, kind, version and devices, and where a device
// node comes from.
func TestCDISpecIsAsRecorded(t *testing.T) {
	r := newRig(t, "mock")
	r.config(plain)
	r.serve.Given["device-list-strategy"], r.serve.Given["driver-root"] = "cdi-cri", "/run/nvidia/driver"
	r.start()
	r.sees("gpu 2/2")
	spec, err := library.ReadSpec(filepath.Join(r.serve.CDIDir, "k8s.device-plugin.nvidia.com-gpu.json"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Version != "0.5.0" || spec.Kind != "k8s.device-plugin.nvidia.com/gpu" || len(spec.Devices) != 2 {
		t.Errorf("version %s, kind %s, %d devices", spec.Version, spec.Kind, len(spec.Devices))
	}
	node := spec.GetDevice(gpu0).ContainerEdits.DeviceNodes[0]
	if node.Path != "/dev/nvidia0" || node.HostPath != "/run/nvidia/driver/dev/nvidia0" {
		t.Errorf("%s has the node %+v", gpu0, node)
	}
	if !slices.Contains(spec.ContainerEdits.Env, "NVIDIA_VISIBLE_DEVICES=void") {
		t.Errorf("environment %v lets NVIDIA's runtime add GPUs of its own", spec.ContainerEdits.Env)
	}
}

// The recorded labels that tell the three configs apart.
func TestLabelsAreAsRecorded(t *testing.T) {
	r := newRig(t, "mock")
	r.join(map[string]string{"nvidia.com/device-plugin.config": "default"})
	r.mount(map[string]string{"default": plain, "shared_gpu": sliced, "renamed": alone})
	r.start()
	for _, step := range []struct{ config, product, replicas, strategy string }{
		{"default", "Mock-NVIDIA-A100-SXM4-40GB", "1", "none"},
		{"shared_gpu", "Mock-NVIDIA-A100-SXM4-40GB-SHARED", "10", "time-slicing"},
		{"renamed", "Mock-NVIDIA-A100-SXM4-40GB", "10", "time-slicing"},
	} {
		r.cluster.label(map[string]string{"nvidia.com/device-plugin.config": step.config})
		want := map[string]string{
			"nvidia.com/gpu.product": step.product, "nvidia.com/gpu.replicas": step.replicas, "nvidia.com/gpu.sharing-strategy": step.strategy,
			"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.compute.major": "8",
			"nvidia.com/gpu.machine": "unknown", "nvidia.com/gpu.mode": "unknown", "nvidia.com/mig.capable": "true", "nvidia.com/mps.capable": "false", "nvidia.com/vgpu.present": "false",
			"nvidia.com/cuda.driver-version.full": "550.163.01", "nvidia.com/cuda.runtime-version.full": "12.4",
		}
		r.awaits("the labels of "+step.config, func(c *apiServer) bool {
			for k, v := range want {
				if c.applied[k] != v {
					return false
				}
			}
			return true
		})
	}
}
