package driver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/nvml"
)

// files is what the kernel says of a machine in its file systems. What cannot
// be read is not known: no GPU is refused for it.
type files struct {
	sys, proc string
}

// name is the machine's DMI product name, "" when there is none.
func (f files) name() string { return read(filepath.Join(f.sys, "class/dmi/id/product_name")) }

// class is a PCI device's class: 0x030200.
func (f files) class(bus string) uint32 {
	n, err := strconv.ParseUint(read(f.device(bus, "class")), 0, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// numa lists the NUMA node of a PCI device; the kernel writes -1 for none.
func (f files) numa(bus string) []int {
	n, err := strconv.Atoi(read(f.device(bus, "numa_node")))
	if err != nil || n < 0 {
		return nil
	}
	return []int{n}
}

func (f files) device(bus, file string) string {
	return filepath.Join(f.sys, "bus/pci/devices", bus, file)
}

// caps lists the device nodes of a MIG instance: that of its GPU instance, then
// that of its compute instance.
func (f files) caps(minor int, gi, ci uint32) []string {
	of := "gpu" + strconv.Itoa(minor) + "/gi" + strconv.FormatUint(uint64(gi), 10)
	minors := migMinors(read(filepath.Join(f.proc, "driver/nvidia-caps/mig-minors")))
	var out []string
	for _, key := range []string{of + "/access", of + "/ci" + strconv.FormatUint(uint64(ci), 10) + "/access"} {
		if n, ok := minors[key]; ok {
			out = append(out, "/dev/nvidia-caps/nvidia-cap"+n)
		}
	}
	return out
}

// migMinors reads the kernel's list of capabilities, lines such as
// "gpu0/gi1/ci0/access 13".
func migMinors(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			out[f[0]] = f[1]
		}
	}
	return out
}

// The PCI configuration space, as far as it is looked at.
const (
	pciStatus       = 0x06
	pciHasList      = 0x10 // bit of the status
	pciCapabilities = 0x34
	pciVendor       = 0x09 // capability of the vendor's own
)

// vgpu reads what a vGPU's host says of itself in the vendor's own capability
// of the guest's PCI device; nil for a GPU that is none.
func (f files) vgpu(bus string) *nvml.VGPU {
	config, err := os.ReadFile(f.device(bus, "config"))
	if err != nil {
		return nil
	}
	return hostOf(vendorCapability(config))
}

// vendorCapability finds the vendor's own capability in a configuration space.
func vendorCapability(config []byte) []byte {
	if len(config) < 256 || config[pciStatus]&pciHasList == 0 {
		return nil
	}
	visited := [256]bool{}
	for at := int(config[pciCapabilities]); at != 0 && at < 253 && !visited[at]; at = int(config[at+1]) {
		visited[at] = true
		if length := int(config[at+2]); config[at] == pciVendor && at+length <= len(config) {
			return config[at : at+length]
		}
	}
	return nil
}

// A record of the capability is an id, its length, and the content; they begin
// after the letters "VF". Record 0 holds the host's driver and its branch.
const (
	recordsAt  = 5
	hostRecord = 0
	hostField  = 10 // bytes of either text
)

func hostOf(capability []byte) *nvml.VGPU {
	if len(capability) < recordsAt || string(capability[3:5]) != "VF" {
		return nil
	}
	out := &nvml.VGPU{}
	for at := recordsAt; at+1 < len(capability); at += int(capability[at+1]) {
		if capability[at] == hostRecord && at+2+2*hostField <= len(capability) {
			text := capability[at+2:]
			out.HostDriver, out.HostBranch = cString(text[:hostField]), cString(text[hostField:2*hostField])
			break
		}
		if capability[at+1] == 0 {
			break
		}
	}
	return out
}

func cString(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

func read(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
