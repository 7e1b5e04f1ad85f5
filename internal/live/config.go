package live

import (
	"slices"
	"strings"
)

// configMaps keeps of ConfigMaps the values that may be device configs or MIG
// layouts, those that envFrom may make variables of that show GPUs, and
// everything of those that a device plugin names.
type configMaps map[string]bool // names that device plugins mount

// mounts notes the ConfigMaps that a DaemonSet of a device plugin mounts.
func (c configMaps) mounts(daemonSet map[string]any) {
	if !plugin(daemonSet) {
		return
	}
	walk(daemonSet, func(name string, value any) {
		if m, ok := value.(map[string]any); ok && name == "configMap" {
			if mounted, ok := m["name"].(string); ok {
				c[mounted] = true
			}
		}
	})
}

// keep cuts a ConfigMap; ok is false when nothing of it is of use.
func (c configMaps) keep(object map[string]any) (ok bool) {
	data, _ := object["data"].(map[string]any)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if c[name] {
		return true
	}
	for key, value := range data {
		if text, _ := value.(string); !configText(text) && !shows(key) {
			delete(data, key)
		}
	}
	return len(data) > 0
}

// shows reports whether a key of a ConfigMap, behind some prefix of envFrom, is a
// variable that shows GPUs.
func shows(key string) bool {
	return slices.ContainsFunc([]string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"}, func(name string) bool {
		return key != "" && strings.HasSuffix(name, key)
	})
}

// configText reports whether a text may be a device config or a set of MIG
// layouts. It may take other texts for one; whoever parses it finds out.
func configText(text string) bool {
	if strings.Contains(text, "mig-configs") {
		return true
	}
	return strings.Contains(text, "timeSlicing") || strings.Contains(text, "mps:") || strings.Contains(text, "migStrategy") ||
		strings.Contains(text, "version: v1") && (strings.Contains(text, "flags:") || strings.Contains(text, "sharing:"))
}
