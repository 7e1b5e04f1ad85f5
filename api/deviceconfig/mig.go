package deviceconfig

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/api/manifest"
)

// profile is the form of a MIG profile: compute slices when they differ from
// the GPU slices, GPU slices, memory, then attributes to have (+) or to lack (-).
var profile = regexp.MustCompile(`^([1-9]\d*c\.)?[1-9]\d*g\.[1-9]\d*gb([+-][a-z][a-z0-9.]*(,[a-z][a-z0-9.]*)*)?$`)

var (
	migFile  = []string{"version", "mig-configs"}
	migEntry = []string{"device-filter", "devices", "mig-enabled", "mig-devices"}
)

// DecodeMIG reads a mig-parted file (version v1, by the rules of mig-parted
// 0.15, which refuses unknown keys) and returns its layouts by name. A nil or
// null node is an empty file, without layouts. As in Decode, problems do not
// stop it; an entry of which the devices cannot be read is left out.
func DecodeMIG(n *manifest.Node) (map[string]MIGConfig, []Problem) {
	d := &decoder{}
	if n == nil || n.Kind == manifest.Null {
		return nil, nil
	}
	if n.Kind != manifest.Map {
		d.wrongKind(n, "", "a map with version and mig-configs")
		return nil, d.problems
	}
	d.repeated(n)
	f := d.strict(n, "", migFile)
	if v := f["version"]; v == nil {
		d.fail(n, "version", "add version: v1", "no version is given, which mig-parted refuses")
	} else if v.Kind != manifest.String || v.Text != "v1" {
		d.fail(v, "version", "write version: v1", "unknown version %s; mig-parted knows v1 only", show(v))
	}
	return d.layouts(f["mig-configs"], n), d.problems
}

// strict returns the fields of a map by name, a misspelt one under the name
// that was meant. Here the case of a key matters.
func (d *decoder) strict(n *manifest.Node, at string, known []string) map[string]*manifest.Node {
	out := map[string]*manifest.Node{}
	for _, f := range n.Fields {
		if slices.Contains(known, f.Name) {
			out[f.Name] = f.Value
			continue
		}
		near := manifest.Nearest(f.Name, known)
		if near == "" || n.Get(near) != nil {
			d.fail(keyNode(f), manifest.Join(at, f.Name), "remove it", "unknown key %s, which mig-parted refuses; known here: %s", f.Name, strings.Join(known, ", "))
			continue
		}
		d.fail(keyNode(f), manifest.Join(at, f.Name), "write "+near, "unknown key %s, which mig-parted refuses; read as %s", f.Name, near)
		out[near] = f.Value
	}
	return out
}

func (d *decoder) layouts(n, parent *manifest.Node) map[string]MIGConfig {
	if n == nil || n.Kind != manifest.Map || len(n.Fields) == 0 {
		d.fail(orParent(n, parent), "mig-configs", "add a layout", "expected a map of layouts, found %s", show(n))
		return nil
	}
	out := map[string]MIGConfig{}
	for _, f := range n.Fields {
		at := manifest.Join("mig-configs", f.Name)
		if f.Value == nil || f.Value.Kind != manifest.List || len(f.Value.Items) == 0 {
			d.fail(keyNode(f), at, "add an entry: {devices: all, mig-enabled: false}", "expected a list of entries, found %s", show(f.Value))
			continue
		}
		out[f.Name] = nil
		for i, item := range f.Value.Items {
			if e, ok := d.migEntry(item, index(at, i)); ok {
				out[f.Name] = append(out[f.Name], e)
			}
		}
	}
	return out
}

func (d *decoder) migEntry(n *manifest.Node, at string) (MIGEntry, bool) {
	if n == nil || n.Kind != manifest.Map {
		d.wrongKind(n, at, "a map with devices, mig-enabled and mig-devices")
		return MIGEntry{}, false
	}
	f := d.strict(n, at, migEntry)
	e := MIGEntry{Filter: d.filter(f["device-filter"], at+".device-filter")}
	devices, ok := d.migTargets(f["devices"], n, at+".devices")
	e.Devices = devices
	e.MIGDevices = d.instances(f["mig-devices"], at+".mig-devices")
	if f["mig-enabled"] == nil {
		e.Enabled = len(e.MIGDevices) > 0
		d.fail(n, at+".mig-enabled", "add mig-enabled: "+strconv.FormatBool(e.Enabled), "mig-enabled is missing, which mig-parted refuses")
		return e, ok
	}
	e.Enabled = d.boolean(f["mig-enabled"], at+".mig-enabled", false)
	switch given := f["mig-devices"]; {
	case e.Enabled && (given == nil || given.Kind == manifest.Null):
		d.fail(n, at+".mig-devices", "add mig-devices: {} or list instances", "mig-enabled is true without mig-devices, which mig-parted refuses")
	case !e.Enabled && len(e.MIGDevices) > 0:
		d.fail(given, at+".mig-devices", "set mig-enabled: true, or remove mig-devices", "instances are listed although mig-enabled is false, which mig-parted refuses")
		e.MIGDevices = nil
	}
	return e, ok
}

// migTargets reads which GPUs an entry is for: all, or a list of indexes.
func (d *decoder) migTargets(n, parent *manifest.Node, at string) (Devices, bool) {
	if n != nil && n.Kind == manifest.String && n.Text == "all" {
		return Devices{}, true
	}
	if n == nil || n.Kind != manifest.List || len(n.Items) == 0 {
		d.fail(orParent(n, parent), at, "write all, or a list of GPU indexes", "expected all or a list of GPU indexes, found %s", show(n))
		return Devices{}, false
	}
	var out Devices
	for i, item := range n.Items {
		if item.Kind == manifest.Number && isIndex(item.Text) {
			out.List = append(out.List, item.Text)
			continue
		}
		d.fail(item, index(at, i), "write the index as a number", "expected a GPU index, found %s", show(item))
		if isIndex(item.Text) {
			out.List = append(out.List, item.Text)
		}
	}
	return out, len(out.List) > 0
}

// filter reads the PCI ids that an entry is restricted to.
func (d *decoder) filter(n *manifest.Node, at string) []string {
	if n == nil || n.Kind == manifest.Null || (n.Kind == manifest.String && n.Text == "") {
		return nil
	}
	items := n.Items
	if n.Kind != manifest.List {
		items = []*manifest.Node{n}
	}
	var out []string
	for i, item := range items {
		if !isPCI(item) {
			d.fail(item, index(at, i), `write device and vendor as "0x20B510DE"`, "expected a PCI id, found %s", show(item))
			continue
		}
		out = append(out, item.Text)
	}
	return out
}

// isPCI reports whether n is a device id such as "0x20B510DE", if need be with
// a subsystem id behind a colon.
func isPCI(n *manifest.Node) bool {
	if n.Kind != manifest.String {
		return false
	}
	device, sub, two := strings.Cut(n.Text, ":")
	_, err := strconv.ParseUint(device, 0, 32)
	if two && err == nil {
		_, err = strconv.ParseUint(sub, 0, 32)
	}
	return err == nil
}

// instances reads how many instances of each profile an entry makes.
func (d *decoder) instances(n *manifest.Node, at string) map[string]int64 {
	if !d.isMap(n, at) {
		return nil
	}
	out := map[string]int64{}
	for _, f := range n.Fields {
		key := manifest.Join(at, f.Name)
		if !profile.MatchString(f.Name) {
			d.fail(keyNode(f), key, `write a profile such as "1g.5gb" or "1g.5gb+me"`, "%q is no MIG profile", f.Name)
			continue
		}
		count, err := strconv.ParseInt(f.Value.Str(), 10, 32)
		if f.Value == nil || f.Value.Kind != manifest.Number || err != nil || count < 0 {
			d.fail(keyNode(f), key, "write a whole number", "expected a number of instances, found %s", show(f.Value))
		}
		if err == nil && count > 0 {
			out[f.Name] = count
		}
	}
	if len(n.Fields) > 0 && len(out) == 0 {
		d.fail(n, at, "ask for at least one instance, or write {}", "no instance is asked for")
	}
	return out
}
