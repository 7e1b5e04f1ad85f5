// Package cdi writes specs of the Container Device Interface, by which a
// container runtime gives containers their GPUs without NVIDIA's own runtime.
//
// Plain makes the spec of a recorded machine, which is device nodes and nothing
// else; that of a real one, with the driver's libraries, comes from
// internal/cdi/driver. Write replaces spec files so that a runtime never sees
// half of one.
package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Kind of the GPUs of a node: what internal/deviceplugin names in Allocate.
const Kind = "k8s.device-plugin.nvidia.com/gpu"

// controlNodes are the device nodes that every GPU container needs.
var controlNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// A Device is a GPU or MIG instance.
type Device struct {
	Name  string   // as Allocate names it: the UUID, or the index
	Paths []string // its device nodes in a container
}

// Plain returns a spec of device nodes. root is where the host has them, "" or
// "/" for its own /dev; exists reports whether it has one of those that all
// GPUs share.
func Plain(devices []Device, root string, exists func(path string) bool) *specs.Spec {
	spec := &specs.Spec{Kind: Kind, ContainerEdits: specs.ContainerEdits{
		Env: []string{"NVIDIA_VISIBLE_DEVICES=void"}, // so that NVIDIA's runtime adds nothing of its own
	}}
	for _, p := range controlNodes {
		if exists(p) {
			spec.ContainerEdits.DeviceNodes = append(spec.ContainerEdits.DeviceNodes, node(p, root))
		}
	}
	for _, d := range devices {
		made := specs.Device{Name: d.Name}
		for _, p := range d.Paths {
			made.ContainerEdits.DeviceNodes = append(made.ContainerEdits.DeviceNodes, node(p, root))
		}
		spec.Devices = append(spec.Devices, made)
	}
	return spec
}

func node(path, root string) *specs.DeviceNode {
	n := &specs.DeviceNode{Path: path, Permissions: "rw"}
	if root != "" && root != "/" {
		n.HostPath = filepath.Join(root, path)
	}
	return n
}

// Write puts specs into a folder, each in the file that the CDI library names
// after its kind, and returns the files. A spec that cannot be read back is not
// put there, and neither is one that finds no room: the file of before stays.
func Write(dir string, all ...*specs.Spec) ([]string, error) {
	var files []string
	for _, s := range all {
		file, err := write(dir, s)
		if err != nil {
			return files, fmt.Errorf("write the CDI spec of %s: %w", s.Kind, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func write(dir string, s *specs.Spec) (file string, err error) {
	if s.Version, err = specs.MinimumRequiredVersion(s); err != nil {
		return "", err
	}
	name, err := cdi.GenerateNameForSpec(s)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, name+".json")
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return file, nil // runtimes need not read it again
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Runtimes read the files of the folder, not those of folders in it.
	tmp, err := os.MkdirTemp(dir, ".kerf-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	draft := filepath.Join(tmp, name+".json")
	if err := fill(draft, data); err != nil {
		return "", err
	}
	if err := check(draft, s); err != nil {
		return "", err
	}
	return file, os.Rename(draft, file)
}

// fill writes a file and waits until the disk has it.
func fill(file string, data []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// check loads a file as a runtime would and looks for every device in it.
func check(file string, s *specs.Spec) error {
	loaded, err := cdi.ReadSpec(file, 0)
	if err != nil {
		return err
	}
	for _, d := range s.Devices {
		if loaded.GetDevice(d.Name) == nil {
			return fmt.Errorf("device %s is not found again", d.Name)
		}
	}
	return nil
}
