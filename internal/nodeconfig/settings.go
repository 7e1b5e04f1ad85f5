package nodeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
)

// Settings are the flags of NVIDIA's device plugin with the values that hold.
type Settings struct {
	MIGStrategy       string // none, single, mixed
	FailOnInitError   bool
	DriverRoot        string // on the host
	DevRoot           string // on the host; that of the driver when not given
	PassDeviceSpecs   bool
	ListStrategies    []string // envvar, volume-mounts, cdi-annotations, cdi-cri; none given = chosen by the runtime
	ByIndex           bool
	GDRCopy           bool
	GDS               bool
	MOFED             bool
	CDIPrefix         string
	CDIHook           string
	ContainerRoot     string // of the driver, as this process sees it
	MPSRoot           string // on the host
	Packed            bool
	DiscoveryStrategy string // auto, nvml, tegra
	IMEXChannels      []int
	IMEXRequired      bool
	KubeletSocket     string // "" = do not register
	ConfigFile        string
	CDIFeatureFlags   []string
	CDIDisableHooks   []string
}

// A Kind is what a flag holds.
type Kind uint8

// The kinds of a Flag.
const (
	Text Kind = iota
	Bool
	List // separated by commas, or given several times
)

// A Flag is one flag of NVIDIA's device plugin.
type Flag struct {
	Name    string
	Aliases []string
	Env     []string // variables that set it; the first one that is set counts
	Path    string   // in a config file below flags, "" when it cannot be set there
	Default string
	Kind    Kind
	Usage   string
	set     func(*Settings, string) error
}

// Flags lists the flags, as of v0.20.0 and in its order.
func Flags() []Flag {
	return []Flag{
		{"mig-strategy", nil, []string{"MIG_STRATEGY"}, "migStrategy", "none", Text, "how MIG instances are advertised: none, single or mixed", oneOf("unknown MIG strategy: %s", func(s *Settings) *string { return &s.MIGStrategy }, "none", "single", "mixed")},
		{"fail-on-init-error", nil, []string{"FAIL_ON_INIT_ERROR"}, "failOnInitError", "true", Bool, "exit when the driver is missing, instead of waiting for it", boolean(func(s *Settings) *bool { return &s.FailOnInitError })},
		{"driver-root", []string{"nvidia-driver-root"}, []string{"NVIDIA_DRIVER_ROOT"}, "nvidiaDriverRoot", "/", Text, "root of the driver on the host", text(func(s *Settings) *string { return &s.DriverRoot })},
		{"dev-root", []string{"nvidia-dev-root"}, []string{"NVIDIA_DEV_ROOT"}, "nvidiaDevRoot", "", Text, "root of the device nodes on the host (default: the driver's)", text(func(s *Settings) *string { return &s.DevRoot })},
		{"pass-device-specs", nil, []string{"PASS_DEVICE_SPECS"}, "plugin.passDeviceSpecs", "false", Bool, "name the device nodes to the kubelet, for its CPU manager", boolean(func(s *Settings) *bool { return &s.PassDeviceSpecs })},
		{"device-list-strategy", nil, []string{"DEVICE_LIST_STRATEGY"}, "plugin.deviceListStrategy", "", List, "how containers get their devices: envvar, volume-mounts, cdi-annotations, cdi-cri (default: cdi-cri where kubelet and runtime take it, else envvar)", strategies},
		{"device-id-strategy", nil, []string{"DEVICE_ID_STRATEGY"}, "plugin.deviceIDStrategy", "uuid", Text, "how devices are named to the runtime: uuid or index", idStrategy},
		{"gdrcopy-enabled", nil, []string{"GDRCOPY_ENABLED"}, "gdrcopyEnabled", "false", Bool, "give containers GDRCopy", boolean(func(s *Settings) *bool { return &s.GDRCopy })},
		{"gds-enabled", nil, []string{"GDS_ENABLED"}, "gdsEnabled", "false", Bool, "give containers GPUDirect Storage", boolean(func(s *Settings) *bool { return &s.GDS })},
		{"mofed-enabled", nil, []string{"MOFED_ENABLED"}, "mofedEnabled", "false", Bool, "give containers MOFED devices", boolean(func(s *Settings) *bool { return &s.MOFED })},
		{"cdi-annotation-prefix", nil, []string{"CDI_ANNOTATION_PREFIX"}, "plugin.cdiAnnotationPrefix", "cdi.k8s.io/", Text, "prefix of the annotation keys of cdi-annotations", text(func(s *Settings) *string { return &s.CDIPrefix })},
		{"nvidia-cdi-hook-path", []string{"nvidia-ctk-path"}, []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, "plugin.nvidiaCTKPath", "/usr/bin/nvidia-ctk", Text, "the hook of CDI specs, on the host", text(func(s *Settings) *string { return &s.CDIHook })},
		{"driver-root-ctr-path", []string{"container-driver-root"}, []string{"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, "plugin.containerDriverRoot", "/driver-root", Text, "root of the driver in this container", text(func(s *Settings) *string { return &s.ContainerRoot })},
		{"mps-root", nil, []string{"MPS_ROOT"}, "mpsRoot", "", Text, "directory of the MPS daemons on the host", text(func(s *Settings) *string { return &s.MPSRoot })},
		{"shared-devices-allocation-policy", nil, []string{"SHARED_DEVICES_ALLOCATION_POLICY"}, "plugin.sharedDevicesAllocationPolicy", "distributed", Text, "distributed spreads replicas over the GPUs, packed fills one first", packing},
		{"device-discovery-strategy", nil, []string{"DEVICE_DISCOVERY_STRATEGY"}, "deviceDiscoveryStrategy", "auto", Text, "auto, nvml or tegra", oneOf("invalid device discovery strategy: %s", func(s *Settings) *string { return &s.DiscoveryStrategy }, "auto", "nvml", "tegra")},
		{"imex-channel-ids", nil, []string{"IMEX_CHANNEL_IDS"}, "", "", List, "IMEX channels of every container: none, or 0", channels},
		{"imex-required", nil, []string{"IMEX_REQUIRED"}, "", "false", Bool, "fail when the IMEX channel is missing", boolean(func(s *Settings) *bool { return &s.IMEXRequired })},
		{"kubelet-socket", nil, []string{"KUBELET_SOCKET"}, "", "/var/lib/kubelet/device-plugins/kubelet.sock", Text, `the kubelet's registration socket; "" serves without registering`, text(func(s *Settings) *string { return &s.KubeletSocket })},
		{"config-file", nil, []string{"CONFIG_FILE"}, "", "", Text, "a device config", text(func(s *Settings) *string { return &s.ConfigFile })},
		{"cdi-feature-flags", nil, []string{"CDI_FEATURE_FLAGS"}, "", "", List, "feature flags of NVIDIA's CDI library", list(func(s *Settings) *[]string { return &s.CDIFeatureFlags })},
		{"cdi-disable-hooks", nil, []string{"CDI_DISABLE_HOOKS"}, "", "", List, "hooks to leave out of CDI specs; all leaves out every one", list(func(s *Settings) *[]string { return &s.CDIDisableHooks })},
	}
}

// Resolve gives every flag its value: the one given on the command line (by
// Name), else the environment's, else the config's, else the default. A
// variable that is set but empty counts for nothing, except for the kubelet's
// socket, where "" means something.
func Resolve(given map[string]string, env func(string) (string, bool), cfg deviceconfig.Config) (Settings, error) {
	s := Settings{IMEXChannels: cfg.IMEX.ChannelIDs}
	for _, f := range Flags() {
		value, from := f.value(given, env, cfg)
		if from == "" && f.Name == "imex-channel-ids" {
			continue // the config's own section holds
		}
		if from == "" && f.Name == "imex-required" {
			value = strconv.FormatBool(cfg.IMEX.Required)
		}
		if err := f.set(&s, value); err != nil {
			return s, fmt.Errorf("invalid --%s option%s: %w", f.Name, from, err)
		}
	}
	if s.DevRoot == "" {
		s.DevRoot = s.DriverRoot
	}
	if cfg.MPS != nil && s.MPSRoot == "" {
		return s, errors.New("using MPS requires --mps-root to be specified (MPS_ROOT, or flags.mpsRoot in the config)")
	}
	return s, nil
}

// value finds where a flag is set; from says it for messages, "" for the default.
func (f Flag) value(given map[string]string, env func(string) (string, bool), cfg deviceconfig.Config) (value, from string) {
	if v, ok := given[f.Name]; ok {
		return v, " on the command line"
	}
	for _, name := range f.Env {
		if v, ok := env(name); ok && (v != "" || f.Name == "kubelet-socket") {
			return v, " in " + name
		}
	}
	if f.Path == "migStrategy" && cfg.Flags.MIGStrategy != "" {
		return cfg.Flags.MIGStrategy, " in the config"
	}
	if v, ok := cfg.Flags.Other[f.Path]; ok && f.Path != "" {
		return v, " in the config"
	}
	return f.Default, ""
}

func text(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, v string) error { *field(s) = v; return nil }
}

func boolean(field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		on, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("expected true or false, found %q", v)
		}
		*field(s) = on
		return nil
	}
}

func list(field func(*Settings) *[]string) func(*Settings, string) error {
	return func(s *Settings, v string) error { *field(s) = items(v); return nil }
}

func oneOf(refusal string, field func(*Settings) *string, values ...string) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf(refusal+"; known: %s", v, strings.Join(values, ", "))
		}
		*field(s) = v
		return nil
	}
}

// items splits a list at commas.
func items(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

func strategies(s *Settings, v string) error {
	s.ListStrategies = nil
	for _, item := range items(v) {
		if !slices.Contains([]string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}, item) {
			return fmt.Errorf("invalid strategy: %s; known: envvar, volume-mounts, cdi-annotations, cdi-cri", item)
		}
		s.ListStrategies = append(s.ListStrategies, item)
	}
	return nil
}

func idStrategy(s *Settings, v string) error {
	if v != "uuid" && v != "index" {
		return fmt.Errorf("invalid strategy: %s; known: uuid, index", v)
	}
	s.ByIndex = v == "index"
	return nil
}

func packing(s *Settings, v string) error {
	if v != "distributed" && v != "packed" {
		return fmt.Errorf("invalid policy: %s; known: distributed, packed", v)
	}
	s.Packed = v == "packed"
	return nil
}

func channels(s *Settings, v string) error {
	s.IMEXChannels = nil
	switch got := items(v); {
	case len(got) == 0:
	case len(got) == 1 && got[0] == "0":
		s.IMEXChannels = []int{0}
	default:
		return fmt.Errorf("invalid IMEX config: channels %s; known: none, or 0", v)
	}
	return nil
}
