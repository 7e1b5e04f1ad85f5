package deviceconfig

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

const (
	prefix     = "nvidia.com/"
	maxNameLen = 63 // with the prefix
)

// subdomain is Kubernetes' rule for a DNS subdomain.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// resourceName reads a resource's name and gives it its prefix.
func (d *decoder) resourceName(n, parent *manifest.Node, at string) (string, bool) {
	if n == nil {
		d.fail(parent, at, "add name: nvidia.com/gpu", "no resource name is given, which the plugin refuses")
		return "", false
	}
	if n.Kind != manifest.String {
		d.wrongKind(n, at, "a resource name")
		return "", false
	}
	name := strings.TrimPrefix(n.Text, prefix)
	full := prefix + name
	switch {
	case len(full) > maxNameLen:
		d.fail(n, at, "choose a shorter name", "%s has %d characters; %d is the most", full, len(full), maxNameLen)
		return "", false
	case subdomain.MatchString(name):
		return full, true
	case strings.Contains(name, "/"):
		d.fail(n, at, "use a name under nvidia.com/, or remove the entry", "%s is not NVIDIA's; the plugin advertises names under nvidia.com/ only", n.Text)
		return "", false
	}
	if fixed := strings.ToLower(strings.ReplaceAll(name, "+", ".")); subdomain.MatchString(fixed) {
		d.fail(n, at, "write "+prefix+fixed, "%q is no resource name: lower-case letters, digits, - and . only", n.Text)
		return prefix + fixed, true
	}
	d.fail(n, at, "", "%q is no resource name: lower-case letters, digits, - and . only", n.Text)
	return "", false
}

// uuid is a UUID with or without its dashes.
var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$`)

// isDeviceRef reports whether s names a device: a GPU index, a MIG index
// "gpu:instance", or the UUID of either, also in the older form
// "MIG-GPU-<uuid>/3/0".
func isDeviceRef(s string) bool {
	if isIndex(s) {
		return true
	}
	if gpu, instance, ok := strings.Cut(s, ":"); ok {
		return isIndex(gpu) && isIndex(instance)
	}
	if id, ok := strings.CutPrefix(s, "GPU-"); ok {
		return uuid.MatchString(id)
	}
	id, ok := strings.CutPrefix(s, "MIG-")
	if !ok {
		return false
	}
	if uuid.MatchString(id) {
		return true
	}
	parts := strings.Split(id, "/")
	gpu, ok := strings.CutPrefix(parts[0], "GPU-")
	return ok && len(parts) == 3 && uuid.MatchString(gpu) && isIndex(parts[1]) && isIndex(parts[2])
}

func isIndex(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}
