package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kerfdev/kerf/internal/nvml"
)

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesOfAPCIDevice(t *testing.T) {
	dir := t.TempDir()
	f := Config{Sys: dir + "/sys", Proc: dir + "/proc"}.files()
	const bus = "0000:10:1c.0"
	if f.name() != "" || f.class(bus) != 0 || f.numa(bus) != nil || f.vgpu(bus) != nil || f.caps(0, 1, 0) != nil {
		t.Error("something is known of a machine without files")
	}
	for file, text := range map[string]string{
		"sys/class/dmi/id/product_name":              "p4d.24xlarge\n",
		"sys/bus/pci/devices/" + bus + "/class":      "0x030200\n",
		"sys/bus/pci/devices/" + bus + "/numa_node":  "1\n",
		"sys/bus/pci/devices/0000:10:1d.0/numa_node": "-1\n",
		"proc/driver/nvidia-caps/mig-minors":         "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu1/gi1/access 147\n",
		"sys/bus/pci/devices/0000:10:1d.0/class":     "display\n",
		"sys/bus/pci/devices/0000:10:1d.0/config":    "short",
		"sys/bus/pci/devices/0000:10:1e.0/config":    string(space("VF", record(0, "460.16", "r460_00"))),
		"sys/bus/pci/devices/0000:10:1f.0/config":    string(space("VF", record(3, "x", "y"), record(0, "470.1", "r470"))),
		"sys/bus/pci/devices/0000:11:1f.0/config":    string(space("??")),
		"sys/bus/pci/devices/0000:12:1f.0/config":    string(space("VF", []byte{7, 0})),
	} {
		write(t, filepath.Join(dir, file), text)
	}
	if f.name() != "p4d.24xlarge" || f.class(bus) != 0x030200 || f.class("0000:10:1d.0") != 0 {
		t.Errorf("machine %q, class %#x", f.name(), f.class(bus))
	}
	if diff := cmp.Diff([]int{1}, f.numa(bus)); diff != "" || f.numa("0000:10:1d.0") != nil {
		t.Errorf("NUMA %v and %v", f.numa(bus), f.numa("0000:10:1d.0"))
	}
	want := []string{"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}
	if diff := cmp.Diff(want, f.caps(0, 1, 0)); diff != "" {
		t.Errorf("capabilities: %s", diff)
	}
	for bus, want := range map[string]*nvml.VGPU{
		"0000:10:1d.0": nil,
		"0000:10:1e.0": {HostDriver: "460.16", HostBranch: "r460_00"},
		"0000:10:1f.0": {HostDriver: "470.1", HostBranch: "r470"},
		"0000:11:1f.0": nil,
		"0000:12:1f.0": {},
	} {
		if diff := cmp.Diff(want, f.vgpu(bus)); diff != "" {
			t.Errorf("vGPU of %s: %s", bus, diff)
		}
	}
}

// space is a PCI configuration space with a capability of power management,
// then one of the vendor's own.
func space(signature string, records ...[]byte) []byte {
	out := make([]byte, 256)
	out[pciStatus], out[pciCapabilities] = pciHasList, 0x40
	out[0x40], out[0x41], out[0x42] = 1, 0x48, 8
	at := 0x48
	out[at] = pciVendor
	copy(out[at+3:], signature)
	end := at + recordsAt
	for _, r := range records {
		end += copy(out[end:], r)
	}
	out[at+2] = byte(end - at)
	return out
}

func record(id byte, driver, branch string) []byte {
	out := make([]byte, 2+2*hostField)
	out[0], out[1] = id, byte(len(out))
	copy(out[2:], driver)
	copy(out[2+hostField:], branch)
	return out
}

func FuzzVGPU(f *testing.F) {
	f.Add(space("VF", record(0, "460.16", "r460_00")))
	f.Add(space("VF", []byte{7, 0}))
	f.Fuzz(func(_ *testing.T, config []byte) { hostOf(vendorCapability(config)) })
}
