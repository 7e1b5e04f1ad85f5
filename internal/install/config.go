package install

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A rank says how surely a config is the one that nodes get; of two with one
// name the higher rank counts.
type rank int

const (
	loose     rank = iota // stands in a file, and no installation speaks of it
	installed             // an installation names it or holds it
)

// A config is one named device config and where it stands.
type config struct {
	name  string
	rank  rank
	value deviceconfig.Config
	place model.Place
	from  string // key of its ConfigMap, "" for others
}

// layouts are the MIG layouts of one mig-parted file.
type layouts struct {
	byName map[string]deviceconfig.MIGConfig
	from   string // key of its ConfigMap, "" for others
}

// A choice is the default config that an installation names.
type choice struct {
	name string
	doc  manifest.Document
	node *manifest.Node
	path string
}

// A reference is the name of a ConfigMap that an installation reads.
type reference struct {
	namespace, name string
	doc             manifest.Document
	node            *manifest.Node
	path            string
	strategy        string // the MIG strategy that wins over that of its configs, "" for none
	mig             bool   // it holds MIG layouts
}

// config decodes one config; what is wrong with it is noted.
func (r *reader) config(d manifest.Document, name, path string, root *manifest.Node, at rank) config {
	cfg, problems := deviceconfig.Decode(root)
	r.problems(d, root, path, problems)
	line := root.LineOf()
	return config{name: name, rank: at, value: cfg, place: model.Place{File: d.File, Line: line, Object: title(d), Field: path}}
}

func (r *reader) problems(d manifest.Document, root *manifest.Node, path string, problems []deviceconfig.Problem) {
	for _, p := range problems {
		severity := model.Error
		if p.Warning {
			severity = model.Warning
		}
		field := strings.Trim(path+"."+p.Field, ".")
		at := &manifest.Node{Line: p.Line}
		if p.Line == 0 {
			at = root
		}
		r.note(severity, "device-config", d, at, field, p.Text, p.Fix)
	}
}

// textConfig decodes a config that stands as text in a value.
func (r *reader) textConfig(d manifest.Document, name, path string, n *manifest.Node) config {
	root := n
	if n != nil && n.Kind == manifest.String {
		root = r.nested(d, n, path)
	}
	c := r.config(d, name, path, root, installed)
	if c.place.Line == 0 {
		c.place.Line = n.LineOf()
	}
	return c
}

// layouts decodes a mig-parted file.
func (r *reader) layouts(d manifest.Document, path string, root *manifest.Node) {
	byName, problems := deviceconfig.DecodeMIG(root)
	r.problems(d, root, path, problems)
	from := ""
	if d.Kind == "ConfigMap" {
		from = d.Namespace + "/" + d.Name
	}
	r.mig = append(r.mig, layouts{byName, from})
}

// configMaps reads the ConfigMaps that installations name, and those that look
// like device configs or MIG layouts although nothing here names them.
func (r *reader) configMaps() {
	referred := map[string]bool{}
	for _, ref := range r.named {
		key, ok := r.find(ref)
		if !ok {
			r.absent(ref)
			continue
		}
		if !referred[key] {
			referred[key] = true
			from := len(r.configs)
			r.configMap(r.maps[key], key, installed)
			r.override(from, ref.strategy)
		}
	}
	for _, key := range r.mapOrder {
		if !referred[key] {
			r.configMap(r.maps[key], key, loose)
		}
	}
}

// override gives the configs from an index on the MIG strategy of a flag or
// variable, which wins over the config file.
func (r *reader) override(from int, strategy string) {
	if !slices.Contains(strategies, strategy) {
		return
	}
	for i := range r.configs[from:] {
		r.configs[from+i].value.Flags.MIGStrategy = strategy
	}
}

// find looks for a ConfigMap in the installation's namespace, then anywhere.
func (r *reader) find(ref reference) (string, bool) {
	if key := ref.namespace + "/" + ref.name; r.maps[key].Root != nil {
		return key, true
	}
	for _, key := range r.mapOrder {
		if r.maps[key].Name == ref.name {
			return key, true
		}
	}
	return "", false
}

func (r *reader) absent(ref reference) {
	what := "the device configs of the plugin are"
	if ref.mig {
		what = "the MIG layouts are"
		if strings.HasPrefix(ref.name, "default-mig-parted-config") {
			return // the operator brings this one
		}
	}
	r.note(model.Warning, "config-missing", ref.doc, ref.node, ref.path,
		what+" in ConfigMap "+ref.name+", which is not among the files", "add it: kubectl get configmap "+ref.name+" -o yaml")
}

// configMap takes the configs and layouts out of a ConfigMap. Of one that
// nothing names, only the values that look like one.
func (r *reader) configMap(d manifest.Document, key string, at rank) {
	data := d.Root.Get("data")
	if data == nil || data.Kind != manifest.Map {
		return
	}
	among := slices.ContainsFunc(data.Fields, func(f manifest.Field) bool {
		return f.Value != nil && f.Value.Kind == manifest.String && r.looksLikeConfig(f.Value)
	})
	for _, f := range data.Fields {
		text := f.Value
		if text == nil || text.Kind != manifest.String || data.Get(f.Name) != text {
			continue
		}
		path := manifest.Join("data", f.Name)
		switch {
		case strings.Contains(text.Text, "mig-configs"):
			r.layouts(d, path, r.nested(d, text, path))
		case at == installed:
			c := r.textConfig(d, f.Name, path, text)
			c.from = key
			r.configs = append(r.configs, c)
		case r.looksLikeConfig(text), among && r.sharesNothing(text):
			c := r.textConfig(d, f.Name, path, text)
			c.from, c.rank = key, loose
			r.configs = append(r.configs, c)
		}
	}
}

// looksLikeConfig tells a device config from the other things that ConfigMaps hold.
func (r *reader) looksLikeConfig(text *manifest.Node) bool {
	if !strings.Contains(text.Text, "sharing") && !strings.Contains(text.Text, "flags") {
		return false
	}
	root, _ := r.parse(text)
	if root == nil || root.Kind != manifest.Map {
		return false
	}
	return has(root.Get("sharing"), "timeSlicing", "mps") ||
		root.Get("version").Str() == "v1" && has(root, "flags", "sharing") ||
		has(root.Get("flags"), "migStrategy", "plugin", "gfd")
}

// sharesNothing reports whether a text is the config that shares nothing, which
// is only known by its neighbours: a version and no more.
func (r *reader) sharesNothing(text *manifest.Node) bool {
	if !strings.Contains(text.Text, "version") {
		return false
	}
	root, _ := r.parse(text)
	return root != nil && len(root.Fields) == 1 && root.Get("version").Str() == "v1"
}

// sharing gathers the configs and layouts that nodes may select.
func (r *reader) sharing() model.Sharing {
	s := model.Sharing{Configs: map[string]deviceconfig.Config{}, MIG: map[string]deviceconfig.MIGConfig{}, Places: map[string]model.Place{}}
	for _, c := range r.configs {
		s.Configs[c.name], s.Places[c.name] = c.value, c.place
	}
	if len(r.defaults) > 0 {
		s.Default = r.defaults[0].name
	}
	for _, l := range r.mig {
		maps.Copy(s.MIG, l.byName)
	}
	return s
}

// settle decides which configs count: those of an installation before those
// that just stand in a file, and none when the only plugin reads none.
func (r *reader) settle() {
	for i := range r.plugins {
		r.plugins[i].NFD = r.plugins[i].NFD || r.nfd
		r.plugins[i].GFD = r.plugins[i].GFD || r.gfd
	}
	blind := len(r.plugins) > 0 && !slices.ContainsFunc(r.plugins, func(p model.Plugin) bool { return !p.NoConfig })
	held := slices.ContainsFunc(r.configs, func(c config) bool { return c.rank == installed })
	kept := r.configs[:0:0]
	for _, c := range r.configs {
		switch {
		case blind && c.rank == loose:
			fix := "install the chart with this config under config.map"
			if _, name, ok := strings.Cut(c.from, "/"); ok {
				fix = "install the chart with config.name: " + name
			}
			r.unread(c, "the plugin is installed by a manifest that reads no config, so this one has no effect", fix)
		case held && c.rank == loose && c.from != "":
			r.unread(c, "no installation of the plugin here names this ConfigMap, so this config has no effect", "set config.name to it, or remove it")
		default:
			kept = append(kept, c)
		}
	}
	r.configs = r.merge(kept)
	r.checkDefaults()
}

func (r *reader) unread(c config, text, fix string) {
	r.notes = append(r.notes, model.Note{Code: "config-unread", Severity: model.Warning, Place: c.place, Text: text, Fix: fix})
}

// merge keeps one config a name: that of an installation, else the last one.
func (r *reader) merge(configs []config) []config {
	byName := map[string]int{}
	var out []config
	for _, c := range configs {
		at, again := byName[c.name]
		if !again {
			byName[c.name] = len(out)
			out = append(out, c)
			continue
		}
		first := out[at]
		if c.rank >= first.rank {
			out[at] = c
		}
		if !reflect.DeepEqual(first.value, c.value) {
			used := out[at].place
			r.notes = append(r.notes, model.Note{
				Code: "config-twice", Severity: model.Warning, Place: c.place,
				Text: "the device config " + c.name + " is given here and at " + first.place.String() + ", and they differ; that of " + used.String() + " counts",
				Fix:  "keep one of the two",
			})
		}
	}
	return out
}

// checkDefaults names a default config that does not exist, and drops it.
func (r *reader) checkDefaults() {
	var good []choice
	for _, c := range r.defaults {
		i := slices.IndexFunc(r.configs, func(x config) bool { return x.name == c.name })
		if i >= 0 {
			good = append(good, c)
			continue
		}
		if r.unseen() {
			continue // the ConfigMap that would hold it is not among the files
		}
		r.note(model.Error, "config-default", c.doc, c.node, c.path,
			"the default config "+c.name+" does not exist, so the plugin would not start on nodes without the label "+model.LabelDeviceConfig+"; there are: "+r.names(), "name one of them")
	}
	for _, c := range good[min(1, len(good)):] {
		if c.name != good[0].name {
			r.note(model.Warning, "config-default", c.doc, c.node, c.path, "another installation makes "+good[0].name+" the default config; that one counts for every node", "")
		}
	}
	r.defaults = good
}

// unseen reports whether an installation names a ConfigMap that was not given.
func (r *reader) unseen() bool {
	return slices.ContainsFunc(r.named, func(ref reference) bool {
		_, ok := r.find(ref)
		return !ok && !ref.mig
	})
}

func (r *reader) names() string {
	var names []string
	for _, c := range r.configs {
		names = append(names, c.name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
