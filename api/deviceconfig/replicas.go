package deviceconfig

import (
	"strconv"

	"github.com/kerfdev/kerf/api/manifest"
)

// maxReplicas is about what the kubelet takes: its gRPC messages hold 4 MiB,
// and a device id of a GPU takes some 58 bytes in one.
const maxReplicas = 70000

// timeSlicing reads sharing.timeSlicing. Written as null it is an error, unlike
// mps: the plugin's struct holds it by value.
func (d *decoder) timeSlicing(sharing *manifest.Node) *Replicated {
	n := sharing.Get("timeSlicing")
	if n != nil && n.Kind == manifest.Null {
		d.noResources(n, "sharing.timeSlicing")
		return nil
	}
	return d.section(n, "sharing.timeSlicing", false)
}

func (d *decoder) noResources(n *manifest.Node, at string) {
	d.fail(n, at, "list resources under it, or remove "+at, "no resources are listed, which the plugin refuses")
}

// section reads a timeSlicing or mps section; nil when nothing is shared by it.
func (d *decoder) section(n *manifest.Node, at string, mps bool) *Replicated {
	if !d.isMap(n, at) {
		return nil
	}
	out := &Replicated{
		RenameByDefault:            d.boolean(n.Get("renameByDefault"), at+".renameByDefault", false),
		FailRequestsGreaterThanOne: d.boolean(n.Get("failRequestsGreaterThanOne"), at+".failRequestsGreaterThanOne", mps),
	}
	list := n.Get("resources")
	switch {
	case list == nil || list.Kind == manifest.Null || (list.Kind == manifest.List && len(list.Items) == 0):
		d.noResources(orParent(list, n), at)
		return nil
	case list.Kind != manifest.List:
		d.wrongKind(list, at+".resources", "a list")
		return nil
	}
	for i, item := range list.Items {
		if r, ok := d.entry(item, index(at+".resources", i), out.RenameByDefault); ok {
			d.unionOf(item, index(at+".resources", i), out.Resources, r)
			out.Resources = append(out.Resources, r)
		}
	}
	if len(out.Resources) == 0 {
		return nil
	}
	return out
}

// entry reads one resource; ok is false when nothing can be shared by it.
func (d *decoder) entry(n *manifest.Node, at string, renamed bool) (Resource, bool) {
	if n == nil || n.Kind != manifest.Map {
		d.wrongKind(n, at, "a map with name and replicas")
		return Resource{}, false
	}
	name, named := d.resourceName(n.Get("name"), n, at+".name")
	r := Resource{Name: name}
	var counted bool
	r.Replicas, counted = d.replicas(n.Get("replicas"), n, at+".replicas")
	r.Devices = d.devices(n.Get("devices"), at+".devices")
	r.Rename = d.rename(n, at+".rename", name, renamed)
	return r, named && counted
}

// rename reads a resource's new name. Any other than the default one is
// dropped by the plugin and honoured by Kerf.
func (d *decoder) rename(n *manifest.Node, at, name string, byDefault bool) string {
	field := n.Get("rename")
	fallback := ""
	if byDefault && name != "" {
		fallback = name + ".shared"
	}
	if field == nil {
		return fallback
	}
	to, ok := d.resourceName(field, n, at)
	if !ok {
		return fallback
	}
	if to != fallback {
		d.warn(field, at, "", "device plugin v0.20.0 drops rename; only Kerf's node agent honours it")
		d.last().Upstream = true
	}
	return to
}

// replicas reads how many a device becomes.
func (d *decoder) replicas(n, parent *manifest.Node, at string) (int64, bool) {
	if n == nil {
		d.fail(parent, at, "add replicas: 2 or more", "no replicas are given, which the plugin refuses")
		return 0, false
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	whole, isWhole := wholeNumber(n.Text)
	switch {
	case n.Kind == manifest.String && err == nil:
		d.fail(n, at, "write "+n.Text+" without quotes", "expected a number, found %s", show(n))
	case n.Kind != manifest.Number:
		d.wrongKind(n, at, "a number of 2 or more")
		return 0, false
	case err != nil && isWhole:
		v = whole
		d.fail(n, at, "write "+strconv.FormatInt(v, 10), "expected a whole number, found %s", show(n))
	case err != nil:
		d.fail(n, at, "write a whole number", "expected a whole number of 2 or more, found %s", show(n))
		return 0, false
	}
	switch {
	case v < 2:
		d.fail(n, at, "ask for 2 or more, or remove the entry to share nothing", "%d replicas: the plugin refuses fewer than 2", v)
		d.last().Upstream = v == 1 // not shared, for Kerf's node agent
		return 0, false
	case v > maxReplicas:
		d.fail(n, at, "ask for fewer", "%d replicas: the kubelet takes a list of about %d devices at most", v, maxReplicas)
		return 0, false
	}
	return v, true
}

// wholeNumber reads numbers such as 4.0 and 1e1.
func wholeNumber(text string) (int64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != float64(int64(f)) || f > 1e9 || f < -1e9 {
		return 0, false
	}
	return int64(f), true
}

// devices reads which devices are replicated. On an error all of them are.
func (d *decoder) devices(n *manifest.Node, at string) Devices {
	if n == nil || (n.Kind == manifest.String && n.Text == "all") {
		return Devices{}
	}
	var out Devices
	switch n.Kind {
	case manifest.Number:
		out.Count = d.deviceCount(n, at)
	case manifest.List:
		out.List = d.deviceList(n, at)
	default:
		d.fail(n, at, "write all, a count, or a list", "expected all, a count or a list of devices, found %s", show(n))
	}
	if !out.All() {
		d.warn(n, at, "", "device plugin v0.20.0 drops devices and shares every GPU; only Kerf's node agent honours it")
		d.last().Upstream = true
	}
	return out
}

func (d *decoder) deviceCount(n *manifest.Node, at string) int64 {
	if v, err := strconv.ParseInt(n.Text, 10, 32); err == nil && v > 0 {
		return v
	}
	d.fail(n, at, "write all, a count, or a list", "a count of devices is a whole number above 0, found %s", show(n))
	if v, ok := wholeNumber(n.Text); ok && v > 0 {
		return v
	}
	return 0
}

func (d *decoder) deviceList(n *manifest.Node, at string) []string {
	if len(n.Items) == 0 {
		d.fail(n, at, "list devices, or remove it to share all", "an empty list selects no device")
	}
	var out []string
	for i, item := range n.Items {
		whole := item.Kind == manifest.Number || item.Kind == manifest.String
		if whole && isDeviceRef(item.Text) {
			out = append(out, item.Text)
			continue
		}
		d.fail(item, index(at, i), `write a GPU index ("0"), a MIG index ("0:1") or a UUID ("GPU-...")`, "%s is no device", show(item))
	}
	return out
}

// unionOf warns when an entry repeats one before it: the plugin advertises the
// union, so the larger count wins.
func (d *decoder) unionOf(n *manifest.Node, at string, before []Resource, r Resource) {
	for _, b := range before {
		if b.Name != r.Name || b.Rename != r.Rename || !b.Devices.All() || !r.Devices.All() {
			continue
		}
		d.warn(n, at, "remove one of the entries", "%s is listed twice; the larger number of replicas counts, %d", r.Name, max(b.Replicas, r.Replicas))
		d.last().Strict = true
		return
	}
}
