package guard

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A reach is what a folder or file of the node gives to a pod that mounts it.
type reach struct {
	path string // cleaned; what is below it counts too
	rule string
	// write says that the folder is only of use to who can write to it.
	write bool
	// prefix says that names which only start with path count: /dev/nvidia0.
	prefix bool
}

// reaches lists the places of a node that lead to its GPUs, the more particular
// before the more general. Paths are those of Linux nodes, with /var/run written
// as /run, to which it is a link on every one of them.
var reaches = []reach{
	{path: "/run/nvidia/mps", rule: "mps-pipe"},
	{path: "/dev/nvidia", rule: "host-devices", prefix: true},
	{path: "/dev/dri", rule: "host-devices"},
	{path: "/dev/char", rule: "host-devices"},
	{path: "/proc/driver/nvidia", rule: "host-devices"},
	{path: "/run/nvidia", rule: "host-devices"},
	{path: "/usr/bin/nvidia-", rule: "host-devices", prefix: true},
	{path: "/var/lib/kubelet/device-plugins", rule: "kubelet-sockets"},
	{path: "/var/lib/kubelet/pod-resources", rule: "pod-resources"},
	{path: "/etc/cdi", rule: "runtime-files", write: true},
	{path: "/run/cdi", rule: "runtime-files", write: true},
	{path: "/etc/nvidia-container-runtime", rule: "runtime-files", write: true},
	{path: "/run/containerd", rule: "runtime-files"},
	{path: "/run/docker.sock", rule: "runtime-files"},
	{path: "/run/crio", rule: "runtime-files"},
	{path: "/run/nri", rule: "runtime-files"},
}

// exact lists folders that hold some of the above and count by themselves only.
var exact = map[string]string{
	"/dev": "host-devices", "/var/lib/kubelet": "kubelet-sockets",
	"/": "host-root", "/etc": "host-root", "/var": "host-root", "/var/lib": "host-root", "/run": "host-root",
}

// clean writes a path of a node in the one way that the tables use.
func clean(hostPath string) string {
	p := path.Clean("/" + hostPath)
	if p == "/var/run" || strings.HasPrefix(p, "/var/run/") {
		p = p[len("/var"):]
	}
	return p
}

// reachOf names the rule on mounting a path of the node, "" for none.
func reachOf(hostPath string, readOnly bool) string {
	p := clean(hostPath)
	if rule := exact[p]; rule != "" {
		if rule == "host-root" && readOnly {
			return "host-root-read-only"
		}
		return rule
	}
	for _, r := range reaches {
		if p != r.path && !strings.HasPrefix(p, r.path+"/") && !(r.prefix && strings.HasPrefix(p, r.path)) {
			continue
		}
		if r.write && readOnly {
			return ""
		}
		return r.rule
	}
	return ""
}

// deviceList is where the toolkit looks for devices that are asked for by mounts
// of /dev/null (v1.20.2, DeviceListAsVolumeMountsRoot, compared without a slash).
const deviceList = "/var/run/nvidia-container-devices"

// asksByMount reports whether a mount path asks for a device, or may: the kubelet
// makes the path absolute and the toolkit cleans it, and one that climbs
// with .. hides what it means.
func asksByMount(mountPath string) bool {
	if strings.HasPrefix(path.Clean("/"+mountPath), deviceList) {
		return true
	}
	climbs, names := false, false
	for part := range strings.SplitSeq(mountPath, "/") {
		climbs = climbs || part == ".."
		names = names || strings.HasPrefix(part, path.Base(deviceList))
	}
	return climbs && names
}

// A Pattern is what a rule about volumes looks for, as expressions of RE2 on
// cleaned paths with /var/run written as /run.
type Pattern struct {
	Any       string // paths that count however they are mounted, "" for none
	Writable  string // paths that count unless every mount is read-only
	ReadOnly  string // paths that count only when every mount is read-only
	Otherwise string // paths of Any that belong to another rule
}

// PatternOf is the pattern of a rule about volumes.
func PatternOf(rule string) Pattern {
	var whole, write, other []string
	for _, r := range reaches {
		expression := regexp.QuoteMeta(r.path) + "(?:/.*)?"
		if r.prefix {
			expression = regexp.QuoteMeta(r.path) + ".*"
		}
		switch {
		case r.rule != rule && overlaps(r.path, rule):
			other = append(other, expression)
		case r.rule != rule:
		case r.write:
			write = append(write, expression)
		default:
			whole = append(whole, expression)
		}
	}
	folders := exactOf(rule)
	switch rule {
	case "host-root":
		return Pattern{Writable: union(folders)}
	case "host-root-read-only":
		return Pattern{ReadOnly: union(exactOf("host-root"))}
	}
	return Pattern{Any: union(append(whole, folders...)), Writable: union(write), Otherwise: union(other)}
}

// overlaps reports whether a path lies below one of a rule's.
func overlaps(below, rule string) bool {
	return slices.ContainsFunc(reaches, func(r reach) bool { return r.rule == rule && strings.HasPrefix(below, r.path+"/") })
}

// exactOf lists the folders that count by themselves, as expressions.
func exactOf(rule string) []string {
	var out []string
	for _, folder := range slices.Sorted(maps.Keys(exact)) {
		if exact[folder] == rule {
			out = append(out, regexp.QuoteMeta(folder))
		}
	}
	return out
}

func union(expressions []string) string {
	if len(expressions) == 0 {
		return ""
	}
	return "^(?:" + strings.Join(expressions, "|") + ")$"
}
