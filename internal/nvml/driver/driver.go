// Package driver is NVIDIA's real driver behind the seam of internal/nvml, by
// go-nvml and go-nvlib. It needs cgo, since libnvidia-ml is loaded at run time;
// a program built without cgo gets an error from Open that says so.
//
// NVML is asked for handles anew in every call, so that nothing stale survives
// a GPU that was lost or a library that was initialised again.
package driver

import "cmp"

// A Config says where on a machine the driver is.
type Config struct {
	// Root is the driver's root as this program sees it
	// (--driver-root-ctr-path); below it the library is looked for.
	Root string
	// Sys and Proc are where sysfs and procfs are mounted; "" = /sys and /proc.
	Sys, Proc string
}

func (c Config) files() files {
	return files{sys: cmp.Or(c.Sys, "/sys"), proc: cmp.Or(c.Proc, "/proc")}
}
