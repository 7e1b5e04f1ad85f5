package deviceplugin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/kerfdev/kerf/internal/model"
)

// The pairs of upstream's request checks; the texts are those on record.
func TestAllocateRefusals(t *testing.T) {
	two := func(r Resource, limit int64, kind model.SharingKind) Resource {
		r.MaxRequest, r.Kind = limit, kind
		return r
	}
	for name, test := range map[string]struct {
		resource Resource
		ids      []string
		withheld map[string]string
		err      string
	}{
		"one whole GPU":              {resource: whole(2), ids: []string{"GPU-1"}},
		"a GPU that is not there":    {resource: whole(2), ids: []string{"GPU-1", "GPU-2"}, err: `invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-2`},
		"a GPU instead of a replica": {resource: shared(2, 2), ids: []string{"GPU-0"}, err: `invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-0`},
		"one slice":                  {resource: two(shared(2, 2), 0, model.TimeSlicing), ids: []string{"GPU-0::1"}},
		"slices of two GPUs":         {resource: two(shared(2, 2), 0, model.TimeSlicing), ids: []string{"GPU-0::1", "GPU-1::0"}},
		"two slices where one is the most": {
			resource: two(shared(2, 2), 1, model.TimeSlicing), ids: []string{"GPU-0::1", "GPU-1::0"},
			err: `invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2`,
		},
		"one MPS client":                     {resource: two(shared(2, 2), 1, model.MPS), ids: []string{"GPU-0::1"}},
		"two MPS clients where that is free": {resource: two(shared(2, 2), 0, model.MPS), ids: []string{"GPU-0::1", "GPU-1::0"}},
		"two MPS clients where one is the most": {
			resource: two(shared(2, 2), 1, model.MPS), ids: []string{"GPU-0::1", "GPU-1::0"},
			err: `invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2`,
		},
		"nothing, as after an empty preference": {resource: whole(2)},
		"a device that is withheld": {
			resource: whole(2), ids: []string{"GPU-0"}, withheld: map[string]string{"GPU-0": "a/b still holds GPU-0::3 as nvidia.com/gpu"},
			err: `invalid allocation request for "nvidia.com/gpu": invalid request: device GPU-0 is withheld: a/b still holds GPU-0::3 as nvidia.com/gpu`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newState(test.resource, Options{}, nil, nil, test.withheld).check(test.ids)
			if got := errorText(err); got != test.err {
				t.Errorf("error %q, want %q", got, test.err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAllocateAnswers(t *testing.T) {
	foobar := Resource{Name: "nvidia.com/gpu", Devices: []Device{
		{ID: "foo", UUID: "foo", GPU: "foo", Index: "0", Place: Place{Paths: []string{"/dev/nvidia0"}}},
		{ID: "bar", UUID: "bar", GPU: "bar", Index: "1", Place: Place{Paths: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12"}}},
	}}
	slices := shared(2, 4)
	mps := slices
	mps.Kind, mps.Name = model.MPS, "nvidia.com/gpu.shared"
	type envs = map[string]string
	cdi := func(names ...string) (out []*v1beta1.CDIDevice) {
		for _, n := range names {
			out = append(out, &v1beta1.CDIDevice{Name: "k8s.device-plugin.nvidia.com/" + n})
		}
		return out
	}
	null := func(names ...string) (out []*v1beta1.Mount) {
		for _, n := range names {
			out = append(out, &v1beta1.Mount{HostPath: "/dev/null", ContainerPath: "/var/run/nvidia-container-devices/" + n})
		}
		return out
	}
	spec := func(path string) *v1beta1.DeviceSpec {
		return &v1beta1.DeviceSpec{ContainerPath: path, HostPath: "/run/nvidia/driver" + path, Permissions: "rw"}
	}
	for name, test := range map[string]struct {
		resource Resource
		options  Options
		ids      []string
		want     *v1beta1.ContainerAllocateResponse
	}{
		"by variable":               {foobar, Options{Strategies: []string{EnvVar}}, []string{"foo"}, &v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "foo"}}},
		"each once, in their order": {foobar, Options{Strategies: []string{EnvVar}}, []string{"foo", "bar", "foo"}, &v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "foo,bar"}}},
		"none":                      {foobar, Options{Strategies: []string{EnvVar}}, nil, &v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": ""}}},
		"by index":                  {foobar, Options{Strategies: []string{EnvVar}, ByIndex: true}, []string{"bar", "foo"}, &v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "1,0"}}},
		"slices of one GPU name it once": {
			slices,
			Options{Strategies: []string{EnvVar}},
			[]string{"GPU-1::0", "GPU-0::3", "GPU-1::2"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-0"}},
		},
		"variable with an IMEX channel": {
			foobar,
			Options{Strategies: []string{EnvVar}, IMEXChannels: []int{0}},
			[]string{"foo"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "foo", "NVIDIA_IMEX_CHANNELS": "0"}},
		},
		"by mounts": {
			foobar,
			Options{Strategies: []string{VolumeMounts}, IMEXChannels: []int{0}},
			[]string{"foo", "bar"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}, Mounts: null("foo", "bar", "imex/0")},
		},
		"mounts win over the variable": {
			foobar,
			Options{Strategies: []string{EnvVar, VolumeMounts}},
			[]string{"foo"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}, Mounts: null("foo")},
		},
		"device nodes, those that the machine has": {
			foobar,
			Options{Strategies: []string{EnvVar}, PassDeviceSpecs: true, DevRoot: "/run/nvidia/driver", Exists: func(p string) bool { return !strings.Contains(p, "modeset") }},
			[]string{"bar", "bar"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "bar"}, Devices: []*v1beta1.DeviceSpec{
				spec("/dev/nvidiactl"), spec("/dev/nvidia-uvm"), spec("/dev/nvidia-uvm-tools"), spec("/dev/nvidia1"), spec("/dev/nvidia-caps/nvidia-cap12"),
			}},
		},
		"companions": {
			foobar,
			Options{Strategies: []string{EnvVar}, GDS: true, MOFED: true, GDRCopy: true},
			[]string{"foo"},
			&v1beta1.ContainerAllocateResponse{Envs: envs{"NVIDIA_VISIBLE_DEVICES": "foo", "NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled", "NVIDIA_GDRCOPY": "enabled"}},
		},
		"CDI in the CRI's field, and nothing else": {
			foobar,
			Options{Strategies: []string{CDICRI}, PassDeviceSpecs: true, GDS: true, MOFED: true, GDRCopy: true, IMEXChannels: []int{0}},
			[]string{"foo", "bar", "foo"},
			&v1beta1.ContainerAllocateResponse{CdiDevices: cdi("gpu=foo", "gpu=bar", "imex-channel=0", "gdrcopy=all", "gds=all", "mofed=all")},
		},
		"CDI by index": {foobar, Options{Strategies: []string{CDICRI}, ByIndex: true}, []string{"bar"}, &v1beta1.ContainerAllocateResponse{CdiDevices: cdi("gpu=1")}},
		"CDI beside the variable": {
			foobar,
			Options{Strategies: []string{CDICRI, EnvVar}},
			[]string{"foo"},
			&v1beta1.ContainerAllocateResponse{CdiDevices: cdi("gpu=foo"), Envs: envs{"NVIDIA_VISIBLE_DEVICES": "foo"}},
		},
		"MPS clients find their daemon": {
			mps,
			Options{Strategies: []string{EnvVar}, MPSRoot: "/run/nvidia/mps"},
			[]string{"GPU-0::1"},
			&v1beta1.ContainerAllocateResponse{
				Envs: envs{"NVIDIA_VISIBLE_DEVICES": "GPU-0", "CUDA_MPS_PIPE_DIRECTORY": "/mps/nvidia.com/gpu.shared/pipe"},
				Mounts: []*v1beta1.Mount{
					{ContainerPath: "/mps/nvidia.com/gpu.shared/pipe", HostPath: "/run/nvidia/mps/nvidia.com/gpu.shared/pipe"},
					{ContainerPath: "/dev/shm", HostPath: "/run/nvidia/mps/shm"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(test.resource, test.options, nil, nil, nil)
			devices, err := s.check(test.ids)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, s.answer(devices), protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

// The upstream pairs for annotations, of which the key ends in a random name.
func TestAllocateAnnotations(t *testing.T) {
	two := Resource{Name: "nvidia.com/gpu", Devices: []Device{{ID: "gpu0", UUID: "gpu0", GPU: "gpu0"}, {ID: "gpu1", UUID: "gpu1", GPU: "gpu1"}}}
	const vendor = "k8s.device-plugin.nvidia.com/"
	for name, test := range map[string]struct {
		options Options
		ids     []string
		prefix  string
		want    string // "" for no annotation
	}{
		"nothing":                 {},
		"one device":              {ids: []string{"gpu0"}, want: vendor + "gpu=gpu0"},
		"two devices":             {ids: []string{"gpu0", "gpu1"}, want: vendor + "gpu=gpu0," + vendor + "gpu=gpu1"},
		"a prefix of one's own":   {options: Options{CDIPrefix: "custom.cdi.k8s.io/"}, ids: []string{"gpu0"}, prefix: "custom.cdi.k8s.io/", want: vendor + "gpu=gpu0"},
		"MOFED alone":             {options: Options{MOFED: true}, want: vendor + "mofed=all"},
		"GDS alone":               {options: Options{GDS: true}, want: vendor + "gds=all"},
		"a device, GDS and MOFED": {options: Options{GDS: true, MOFED: true}, ids: []string{"gpu0"}, want: vendor + "gpu=gpu0," + vendor + "gds=all," + vendor + "mofed=all"},
		"an IMEX channel alone":   {options: Options{IMEXChannels: []int{0}}, want: vendor + "imex-channel=0"},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Strategies = []string{CDIAnnotations}
			s := newState(two, test.options, nil, nil, nil)
			devices, err := s.check(test.ids)
			if err != nil {
				t.Fatal(err)
			}
			got := s.answer(devices)
			if test.want == "" {
				if len(got.Annotations)+len(got.Envs)+len(got.CdiDevices) > 0 {
					t.Fatalf("answer %v, want an empty one", got)
				}
				return
			}
			if test.prefix == "" {
				test.prefix = "cdi.k8s.io/"
			}
			for key, value := range got.Annotations {
				if !strings.HasPrefix(key, test.prefix+"nvidia-device-plugin_") || len(key) != len(test.prefix)+len("nvidia-device-plugin_")+36 {
					t.Errorf("key %q", key)
				}
				if value != test.want {
					t.Errorf("value %q, want %q", value, test.want)
				}
			}
			if len(got.Annotations) != 1 || len(got.Envs) != 0 {
				t.Errorf("answer %v, want one annotation", got)
			}
		})
	}
}
