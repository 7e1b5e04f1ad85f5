// Package deviceconfig is the configuration schema of the NVIDIA device plugin
// (version v1, as of k8s-device-plugin v0.20.0) and of mig-parted (v1, as of
// 0.15), as data. It decodes strictly: unknown and repeated keys, values of the
// wrong type and combinations that the plugin refuses are problems with a line.
package deviceconfig

// A Config is one named config of the device plugin. The zero value is what an
// empty file means: no sharing, every flag at the plugin's default.
type Config struct {
	Flags       Flags
	TimeSlicing *Replicated // nil = not configured
	MPS         *Replicated // nil = not configured; wins over TimeSlicing
	IMEX        IMEX
}

// IMEX is the imex section: which IMEX channels every container gets.
type IMEX struct {
	ChannelIDs []int // none, or the one channel 0
	Required   bool  // a node without the channel is an error
}

// Flags are the fields under flags that change what a node advertises. Flags
// that only change how a container gets its devices are checked and kept in Other.
type Flags struct {
	MIGStrategy string // "none", "single" or "mixed"; "" is none
	// Other holds the remaining flags as written, by dotted path: "plugin.deviceListStrategy".
	Other map[string]string
}

// Replicated is a timeSlicing or mps section.
type Replicated struct {
	RenameByDefault bool
	// FailRequestsGreaterThanOne makes the plugin refuse a container that gets
	// more than one replica. Absent, it is false for timeSlicing and true for mps.
	FailRequestsGreaterThanOne bool
	Resources                  []Resource
}

// A Resource is one entry of a section's resources.
type Resource struct {
	Name     string  // with the nvidia.com/ prefix
	Rename   string  // with the prefix, "" = keep the name
	Devices  Devices // which devices are replicated
	Replicas int64   // 2 or more
}

// Devices selects devices: all (the zero value), the first Count, or those in List.
type Devices struct {
	Count int64
	List  []string // GPU index "0", MIG index "0:1", or UUID
}

// All reports whether every device is selected.
func (d Devices) All() bool { return d.Count == 0 && len(d.List) == 0 }

// A MIGConfig is one named layout of a mig-parted file, applied entry by entry.
type MIGConfig []MIGEntry

// A MIGEntry sets some GPUs' MIG mode and instances.
type MIGEntry struct {
	Devices    Devices
	Filter     []string // PCI device ids "0x20B510DE" the entry is restricted to; empty = every model
	Enabled    bool
	MIGDevices map[string]int64 // profile "1g.5gb" to count
}

// A Problem is one thing wrong with a config.
type Problem struct {
	Line    int
	Field   string // path below the config: "sharing.timeSlicing.resources[0].replicas"
	Text    string // what was found and what was expected
	Fix     string // the next step, or ""
	Warning bool   // the plugin accepts it, though not with the meaning that it seems to have
	// Upstream marks what only NVIDIA's own plugin objects to or drops; Kerf's
	// node agent does what is written.
	Upstream bool
	// Strict marks a Warning about something said twice, which Kerf's node agent
	// refuses unless it was told to be lenient.
	Strict bool
}
