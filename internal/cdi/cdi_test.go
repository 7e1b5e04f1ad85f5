package cdi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	library "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

func two() []Device {
	return []Device{
		{Name: "GPU-0", Paths: []string{"/dev/nvidia0"}},
		{Name: "1:0", Paths: []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12"}},
	}
}

func paths(nodes []*specs.DeviceNode) (out []string) {
	for _, n := range nodes {
		out = append(out, n.HostPath+" as "+n.Path)
	}
	return out
}

func TestWriteGivesWhatARuntimeResolves(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cdi") // made when missing
	spec := Plain(two(), "/run/nvidia/driver", func(p string) bool { return strings.HasSuffix(p, "ctl") })
	files, err := Write(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "k8s.device-plugin.nvidia.com-gpu.json")}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	cache, err := library.NewCache(library.WithSpecDirs(dir), library.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{Kind + "=1:0", Kind + "=GPU-0"}, cache.ListDevices()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Errorf("errors %v", errs)
	}
	slice := cache.GetDevice(Kind + "=1:0")
	want := []string{"/run/nvidia/driver/dev/nvidia1 as /dev/nvidia1", "/run/nvidia/driver/dev/nvidia-caps/nvidia-cap12 as /dev/nvidia-caps/nvidia-cap12"}
	if diff := cmp.Diff(want, paths(slice.ContainerEdits.DeviceNodes)); diff != "" {
		t.Errorf("nodes of the MIG instance (-want +got):\n%s", diff)
	}
	common := slice.GetSpec().ContainerEdits
	if diff := cmp.Diff([]string{"/run/nvidia/driver/dev/nvidiactl as /dev/nvidiactl"}, paths(common.DeviceNodes)); diff != "" {
		t.Errorf("nodes of every container (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NVIDIA_VISIBLE_DEVICES=void"}, common.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if v := slice.GetSpec().Version; v != "0.5.0" {
		t.Errorf("CDI version %s; older runtimes need the least that is enough", v)
	}
}

func TestWriteLeavesTheFileOfBeforeWhenItFails(t *testing.T) {
	dir := t.TempDir()
	none := func(string) bool { return false }
	files, err := Write(dir, Plain(two(), "/", none))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]*specs.Spec{
		"a device without nodes":   Plain([]Device{{Name: "GPU-0"}}, "", none),
		"a name that CDI refuses":  Plain([]Device{{Name: "GPU 0", Paths: []string{"/dev/nvidia0"}}}, "", none),
		"the same device twice":    Plain(append(two(), two()...), "", none),
		"no devices":               Plain(nil, "", none),
		"a kind that is no kind":   {Kind: "gpu", Devices: Plain(two(), "", none).Devices},
		"a node without its path":  Plain([]Device{{Name: "GPU-0", Paths: []string{""}}}, "", none),
		"a vendor with a bad name": {Kind: "-x/gpu", Devices: Plain(two(), "", none).Devices},
	} {
		if _, err := Write(dir, spec); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	after, err := os.ReadFile(files[0])
	if err != nil || string(after) != string(before) {
		t.Errorf("the file of before changed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
