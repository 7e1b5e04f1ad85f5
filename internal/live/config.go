package live

import "strings"

// configMaps keeps of ConfigMaps the values that may be device configs or MIG
// layouts, and everything of those that a device plugin names.
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
		if text, _ := value.(string); !ConfigText(text) {
			delete(data, key)
		}
	}
	return len(data) > 0
}

// ConfigText reports whether a text may be a device config or a set of MIG
// layouts. It may take other texts for one; whoever parses it finds out.
func ConfigText(text string) bool {
	if strings.Contains(text, "mig-configs") {
		return true
	}
	return strings.Contains(text, "timeSlicing") || strings.Contains(text, "mps:") || strings.Contains(text, "migStrategy") ||
		strings.Contains(text, "version: v1") && (strings.Contains(text, "flags:") || strings.Contains(text, "sharing:"))
}
