package guard

import (
	"regexp"
	"testing"
)

func TestReachOf(t *testing.T) {
	tests := map[string]struct {
		path     string
		readOnly bool
		want     string
	}{
		"a device":                               {"/dev/nvidia0", false, "host-devices"},
		"the device of unified memory":           {"/dev/nvidia-uvm", true, "host-devices"},
		"all devices":                            {"/dev", false, "host-devices"},
		"a slash at the end":                     {"/dev/", false, "host-devices"},
		"more slashes and dots":                  {"///dev/./nvidia0", false, "host-devices"},
		"a path that climbs":                     {"/opt/../dev/nvidia0", false, "host-devices"},
		"no first slash":                         {"dev/nvidia0", false, "host-devices"},
		"run by its old name":                    {"/var/run/nvidia/driver", false, "host-devices"},
		"pipes of MPS before what they are in":   {"/var/run/nvidia/mps", false, "mps-pipe"},
		"below the pipes":                        {"/run/nvidia/mps/log", false, "mps-pipe"},
		"other devices":                          {"/dev/kmsg", false, ""},
		"a folder whose name starts alike":       {"/devices", false, ""},
		"a folder that starts like the plugins'": {"/var/lib/kubelet/device-plugins-old", false, ""},
		"the kubelet's folder":                   {"/var/lib/kubelet", true, "kubelet-sockets"},
		"the kubelet's pods":                     {"/var/lib/kubelet/pods", false, ""},
		"CDI to read":                            {"/etc/cdi", true, ""},
		"CDI to write":                           {"/etc/cdi/nvidia.yaml", false, "runtime-files"},
		"a socket to read":                       {"/run/docker.sock", true, "runtime-files"},
		"the root":                               {"/", false, "host-root"},
		"the root by no name":                    {"", false, "host-root"},
		"the root to read":                       {"/", true, "host-root-read-only"},
		"var run":                                {"/var/run", false, "host-root"},
		"logs":                                   {"/var/log", false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := reachOf(tc.path, tc.readOnly); got != tc.want {
				t.Errorf("reachOf(%q, %v) = %q, want %q", tc.path, tc.readOnly, got, tc.want)
			}
		})
	}
}

// TestPatternsSayWhatReachOfSays compares the expressions that policies use with
// the function, on paths around every entry of the tables.
func TestPatternsSayWhatReachOfSays(t *testing.T) {
	paths := []string{"/", "/opt", "/dev/kmsg", "/var/lib/kubelet/pods", "/var/log", "/etc/hosts"}
	for _, r := range reaches {
		paths = append(paths, r.path, r.path+"0", r.path+"/x", r.path+"x/y")
	}
	for folder := range exact {
		paths = append(paths, folder, folder+"/x", folder+"x")
	}
	rules := []string{"host-devices", "kubelet-sockets", "pod-resources", "runtime-files", "host-root", "host-root-read-only", "mps-pipe"}
	matches := func(expression, p string) bool {
		return expression != "" && regexp.MustCompile(expression).MatchString(p)
	}
	for _, p := range paths {
		p = clean(p)
		for _, readOnly := range []bool{false, true} {
			for _, rule := range rules {
				x := PatternOf(rule)
				got := !matches(x.Otherwise, p) && (matches(x.Any, p) || (!readOnly && matches(x.Writable, p)) || (readOnly && matches(x.ReadOnly, p)))
				if want := reachOf(p, readOnly) == rule; got != want {
					t.Errorf("%s on %s, read-only %v: the pattern says %v, reachOf %v", rule, p, readOnly, got, want)
				}
			}
		}
	}
}

func TestAsksByMount(t *testing.T) {
	tests := map[string]struct {
		path string
		want bool
	}{
		"the folder":                       {"/var/run/nvidia-container-devices", true},
		"a device":                         {"/var/run/nvidia-container-devices/0", true},
		"a name that goes on":              {"/var/run/nvidia-container-devices-x/0", true},
		"a path that climbs":               {"/var/run/../run/nvidia-container-devices/all", true},
		"a path that climbs from the root": {"/../var/run/nvidia-container-devices/all", true},
		"no first slash":                   {"var/run/nvidia-container-devices/all", true},
		"the short path":                   {"/run/nvidia-container-devices/all", false},
		"another folder":                   {"/var/run/nvidia", false},
		"a folder of that name elsewhere":  {"/data/nvidia-container-devices/all", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := asksByMount(tc.path); got != tc.want {
				t.Errorf("asksByMount(%q) = %v, want %v", tc.path, got, tc.want)
			}
		})
	}
}
