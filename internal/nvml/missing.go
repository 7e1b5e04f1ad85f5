package nvml

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// Soname is the driver's library, as the linker looks for it.
const Soname = "libnvidia-ml.so.1"

// libraryDirs are where a driver's root holds the library, in NVIDIA's order
// (k8s-device-plugin v0.20.0).
var libraryDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
}

// Search looks for the driver's library below a driver's root, as the program
// sees it (--driver-root-ctr-path). It returns the first file that is there,
// else Soname, which the linker may know; and every place that was looked at.
func Search(root string) (library string, tried []string) {
	for _, dir := range libraryDirs {
		file := filepath.Join(root, dir, Soname)
		tried = append(tried, file)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, tried
		}
	}
	return Soname, append(tried, Soname)
}

// A NotFoundError says that a machine has no driver's library where it was
// looked for.
type NotFoundError struct {
	Tried []string
	Cause error // the linker's, or nil
}

func (e *NotFoundError) Error() string {
	text := Soname + " was not found: looked for " + strings.Join(e.Tried, ", ")
	if e.Cause != nil {
		text += " (" + e.Cause.Error() + ")"
	}
	return text + "; run the pod with runtimeClassName: nvidia (or make nvidia the default runtime of containerd)," +
		" or mount the driver's root into the pod and name it with --driver-root-ctr-path"
}

func (e *NotFoundError) Unwrap() error { return e.Cause }

// Missing is the Library of a machine without a driver: everything fails with
// the error that it holds, usually a *NotFoundError.
type Missing struct {
	Err error
}

var _ Library = Missing{}

// Inventory fails.
func (m Missing) Inventory(context.Context) (Inventory, error) { return Inventory{}, m.Err }

// Links fails.
func (m Missing) Links(context.Context) ([]Link, error) { return nil, m.Err }

// Probe fails.
func (m Missing) Probe(context.Context, string) (Probe, error) { return Probe{}, m.Err }

// Watch fails.
func (m Missing) Watch(context.Context) (Events, error) { return nil, m.Err }

// Close does nothing.
func (m Missing) Close() error { return nil }
