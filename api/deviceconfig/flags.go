package deviceconfig

import (
	"slices"
	"strings"
	"time"

	"github.com/kerfdev/kerf/api/manifest"
)

// flagKind says what a flag holds.
type flagKind uint8

const (
	flagText flagKind = iota
	flagBool
	flagOneOf    // one of values
	flagSomeOf   // one of values, or a list of them
	flagDuration // "60s", "infinite", or nanoseconds
)

// A flagRow is one flag that a config file may set; path is below flags.
type flagRow struct {
	path   string
	kind   flagKind
	values []string
}

func (f flagRow) name() string { return f.path[strings.LastIndexByte(f.path, '.')+1:] }

// flagTable holds every flag of the config file, in the schema's order.
var flagTable = []flagRow{
	{"migStrategy", flagOneOf, []string{"none", "single", "mixed"}},
	{"failOnInitError", flagBool, nil},
	{"mpsRoot", flagText, nil},
	{"nvidiaDriverRoot", flagText, nil},
	{"nvidiaDevRoot", flagText, nil},
	{"gdrcopyEnabled", flagBool, nil},
	{"gdsEnabled", flagBool, nil},
	{"mofedEnabled", flagBool, nil},
	{"useNodeFeatureAPI", flagBool, nil},
	{"deviceDiscoveryStrategy", flagOneOf, []string{"auto", "nvml", "tegra"}},
	{"plugin.passDeviceSpecs", flagBool, nil},
	{"plugin.deviceListStrategy", flagSomeOf, []string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}},
	{"plugin.deviceIDStrategy", flagOneOf, []string{"uuid", "index"}},
	{"plugin.cdiAnnotationPrefix", flagText, nil},
	{"plugin.nvidiaCTKPath", flagText, nil},
	{"plugin.containerDriverRoot", flagText, nil},
	{"plugin.sharedDevicesAllocationPolicy", flagOneOf, []string{"distributed", "packed"}},
	{"gfd.oneshot", flagBool, nil},
	{"gfd.noTimestamp", flagBool, nil},
	{"gfd.sleepInterval", flagDuration, nil},
	{"gfd.outputFile", flagText, nil},
	{"gfd.machineTypeFile", flagText, nil},
}

// flagShape makes the shape of the flags below a prefix such as "plugin.".
func flagShape(prefix string) *shape {
	s := &shape{fold: true}
	for _, f := range flagTable {
		rest, ok := strings.CutPrefix(f.path, prefix)
		if !ok {
			continue
		}
		group, _, nested := strings.Cut(rest, ".")
		switch {
		case !nested:
			s.keys = append(s.keys, key{rest, nil})
		case s.keys[len(s.keys)-1].name != group:
			s.keys = append(s.keys, key{group, flagShape(prefix + group + ".")})
		}
	}
	return s
}

func (d *decoder) flags(n *manifest.Node) Flags {
	if !d.isMap(n, "flags") {
		return Flags{}
	}
	for _, group := range []string{"plugin", "gfd"} {
		d.isMap(n.Get(group), "flags."+group)
	}
	out := Flags{Other: map[string]string{}}
	for _, f := range flagTable {
		value := n.At(strings.Split(f.path, ".")...)
		if value == nil || value.Kind == manifest.Null {
			continue
		}
		text := d.flag(value, f)
		if f.path == "migStrategy" {
			out.MIGStrategy = text
			continue
		}
		out.Other[f.path] = text
	}
	if len(out.Other) == 0 {
		out.Other = nil
	}
	return out
}

// flag checks one flag's value and returns it as text.
func (d *decoder) flag(n *manifest.Node, f flagRow) string {
	at := "flags." + f.path
	switch f.kind {
	case flagBool:
		if d.boolean(n, at, false) {
			return "true"
		}
		return "false"
	case flagSomeOf:
		return d.someOf(n, at, f.values)
	case flagDuration:
		d.duration(n, at)
		return n.Text
	}
	if n.Kind != manifest.String {
		d.wrongKind(n, at, "a string")
		return n.Text
	}
	if f.kind == flagOneOf {
		return d.oneOf(n, at, f.values)
	}
	return n.Text
}

func (d *decoder) oneOf(n *manifest.Node, at string, values []string) string {
	if n.Kind != manifest.String || !slices.Contains(values, n.Text) {
		near := manifest.Nearest(n.Text, values)
		fix := "use one of " + strings.Join(values, ", ")
		if near != "" {
			fix = "write " + near
		}
		d.fail(n, at, fix, "unknown value %s; known: %s", show(n), strings.Join(values, ", "))
		return near
	}
	return n.Text
}

func (d *decoder) someOf(n *manifest.Node, at string, values []string) string {
	if n.Kind != manifest.List {
		return d.oneOf(n, at, values)
	}
	var out []string
	for i, item := range n.Items {
		if text := d.oneOf(item, index(at, i), values); text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, ",")
}

func (d *decoder) duration(n *manifest.Node, at string) {
	if n.Kind == manifest.Number {
		return
	}
	if _, err := time.ParseDuration(n.Text); n.Kind == manifest.String && (err == nil || n.Text == "infinite") {
		return
	}
	d.fail(n, at, `write "60s" or "infinite"`, "expected a duration, found %s", show(n))
}

// patterns checks the resources section, which the plugin parses and drops.
func (d *decoder) patterns(n *manifest.Node) {
	if !d.isMap(n, "resources") {
		return
	}
	said := false
	for _, list := range []string{"gpus", "mig"} {
		at := "resources." + list
		items := n.Get(list)
		if items == nil || items.Kind == manifest.Null {
			continue
		}
		if items.Kind != manifest.List {
			d.wrongKind(items, at, "a list")
			continue
		}
		for i, item := range items.Items {
			d.pattern(item, index(at, i))
		}
		if len(items.Items) > 0 && !said {
			d.warn(n, "resources", "remove it", "the plugin reads resources and then drops it: names by pattern are not supported yet")
			said = true
		}
	}
}

func (d *decoder) pattern(n *manifest.Node, at string) {
	if n == nil || n.Kind != manifest.Map {
		d.wrongKind(n, at, "a map with pattern and name")
		return
	}
	if p := n.Get("pattern"); p == nil || p.Kind != manifest.String {
		d.fail(orParent(p, n), at+".pattern", "", "expected a string, found %s", show(p))
	}
	d.resourceName(n.Get("name"), n, at+".name")
}

func (d *decoder) imex(n *manifest.Node) IMEX {
	var out IMEX
	if !d.isMap(n, "imex") {
		return out
	}
	out.Required = d.boolean(n.Get("required"), "imex.required", false)
	ids := n.Get("channelIDs")
	if ids == nil || ids.Kind == manifest.Null {
		return out
	}
	ok := ids.Kind == manifest.List && len(ids.Items) <= 1
	if ok && len(ids.Items) == 1 {
		ok = ids.Items[0].Kind == manifest.Number && ids.Items[0].Text == "0"
		out.ChannelIDs = []int{0}
	}
	if !ok {
		d.fail(ids, "imex.channelIDs", "write [] or [0]", "channelIDs can be [] or [0] only, found %s", show(ids))
		out.ChannelIDs = nil
	}
	return out
}

// orParent returns n, or where it would stand when it is absent.
func orParent(n, parent *manifest.Node) *manifest.Node {
	if n == nil {
		return parent
	}
	return n
}
