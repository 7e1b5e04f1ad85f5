package install

import (
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// known values of the device-plugin chart, 0.14 to 0.20; "" lists the top level
// and a nil list a subtree that is not looked into.
var chartValues = map[string][]string{
	"": {
		"affinity", "allowDefaultNamespace", "cdi", "compatWithCPUManager", "config", "deviceDiscoveryStrategy", "deviceIDStrategy",
		"deviceListStrategy", "devicePlugin", "failOnInitError", "fullnameOverride", "gdrcopyEnabled", "gdsEnabled", "gfd", "global", "image",
		"imagePullSecrets", "legacyDaemonsetAPI", "migStrategy", "mofedEnabled", "mps", "nameOverride", "namespace", "namespaceOverride", "nfd",
		"nodeSelector", "nvidiaDevRoot", "nvidiaDriverRoot", "podAnnotations", "podSecurityContext", "priorityClassName", "resources",
		"runtimeClassName", "securityContext", "selectorLabelsOverride", "tolerations", "updateStrategy",
	},
	"config":       {"name", "map", "default", "fallbackStrategies"},
	"devicePlugin": {"enabled", "enableHostNetwork"},
	"gfd":          {"enabled", "nameOverride", "namespaceOverride", "noTimestamp", "sleepInterval", "securityContext", "enableHostNetwork"},
	"mps":          {"root", "enableHostPID", "enableHostNetwork"},
	"cdi":          {"nvidiaHookPath", "featureFlags"},
	"image":        {"repository", "pullPolicy", "tag"},
}

// release turns one installation into a plugin and its configs.
func (r *reader) release(rel release) {
	if rel.operator {
		r.operator(rel)
		return
	}
	v := rel.values
	r.unknownValues(rel)
	r.refusals(rel)
	if on := v.At("devicePlugin", "enabled"); on != nil && !isTrue(on) {
		r.gfd = r.gfd || isTrue(v.At("gfd", "enabled"))
		return // only feature discovery is installed
	}
	p := r.agent(rel)
	if !rel.kerf {
		p = r.plugin(rel)
	}
	p.ConfigNames = r.chartConfigs(rel)
	r.strategy(rel, p.Name)
	r.plugins = append(r.plugins, p)
}

// plugin is NVIDIA's, as its chart's values have it.
func (r *reader) plugin(rel release) model.Plugin {
	v := rel.values
	p := model.Plugin{
		Name: rel.name, ChartVersion: rel.version, Chart: true,
		NodeSelector: labels(v.Get("nodeSelector")),
		Affinity:     affinity(v.Get("affinity")), AffinitySet: replacesAffinity(v.Get("affinity")),
		Tolerations: tolerations(v.Get("tolerations")), TolerateSet: v.Get("tolerations") != nil,
		GFD:   isTrue(v.At("gfd", "enabled")),
		Place: r.place(rel),
	}
	p.NFD = isTrue(v.At("nfd", "enabled")) || p.GFD && v.At("nfd", "enabled") == nil
	if n := v.At("nfd", "worker", "tolerations"); n != nil {
		p.NFDTolerations = append([]model.Toleration{}, tolerations(n)...)
	}
	return p
}

// replacesAffinity reports whether a value takes the place of the chart's
// default node affinity. Helm merges maps, so {} and other sorts of affinity
// leave it in force; null, or a list of terms, does not.
func replacesAffinity(n *manifest.Node) bool {
	for _, name := range []string{"nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"} {
		if n == nil {
			return false
		}
		if n.Kind == manifest.Null {
			return true
		}
		n = n.Get(name)
	}
	return n != nil
}

func (r *reader) place(rel release) model.Place {
	line := rel.values.LineOf()
	if line == 0 || rel.doc.APIVersion != "" || rel.doc.Via != "" {
		line = rel.doc.Root.LineOf()
	}
	return model.Place{File: rel.doc.File, Line: line, Object: title(rel.doc)}
}

// chartConfigs reads config.map and remembers config.name and config.default.
// It returns the names of the ConfigMaps that the plugin reads.
func (r *reader) chartConfigs(rel release) []string {
	cfg := rel.values.Get("config")
	at := manifest.Join(rel.path, "config")
	var names []string
	if m := cfg.Get("map"); m != nil && m.Kind == manifest.Map && len(m.Fields) > 0 {
		names = append(names, rel.name+"-configs")
		r.embedded(rel.doc, m, at+".map")
	}
	if name := cfg.Get("name"); name.Str() != "" {
		names = append(names, name.Text)
		r.named = append(r.named, reference{
			namespace: rel.namespace, name: name.Text, doc: rel.doc, node: name, path: at + ".name", strategy: rel.values.Get("migStrategy").Str(),
		})
	}
	if def := cfg.Get("default"); def.Str() != "" {
		r.defaults = append(r.defaults, choice{name: def.Text, doc: rel.doc, node: def, path: at + ".default"})
	}
	return names
}

// embedded reads the configs that stand in a values tree under their names.
func (r *reader) embedded(d manifest.Document, m *manifest.Node, at string) {
	for _, f := range m.Fields {
		if f.Value != m.Get(f.Name) {
			continue // repeated: the last one counts
		}
		path := manifest.Join(at, f.Name)
		if f.Value != nil && f.Value.Kind == manifest.Map {
			r.note(model.Error, "config-text", d, &manifest.Node{Line: f.Line}, path,
				"the config "+f.Name+" is a map, and the chart wants its text, so the plugin could not read it; it is read here as it is meant",
				"write "+f.Name+": |- and keep the lines below it")
		}
		c := r.textConfig(d, f.Name, path, f.Value)
		if c.place.Line == 0 {
			c.place.Line = f.Line
		}
		r.configs = append(r.configs, c)
	}
}

// refusals are the combinations at which the chart's templates fail.
func (r *reader) refusals(rel release) {
	v, d := rel.values, rel.doc
	cfg := v.Get("config")
	m := cfg.Get("map")
	at := func(path string) string { return strings.Trim(rel.path+"."+path, ".") }
	if cfg.Get("name").Str() != "" && m != nil && len(m.Fields) > 0 {
		r.note(model.Error, "chart-refuses", d, cfg.Get("name"), at("config.name"), "the chart refuses config.name together with config.map; both are read here", "keep one of the two")
	}
	if m != nil && len(m.Fields) > 0 {
		r.resolvable(rel, cfg, m, at("config.map"))
	}
	if ns := v.Get("namespace"); ns.Str() != "" {
		r.note(model.Error, "chart-refuses", d, ns, at("namespace"), "the chart refuses the value namespace", "remove it and install with helm --namespace "+ns.Text)
	}
	if rel.kerf {
		return // its schema refuses what else is wrong
	}
	if rel.namespace == "default" && !isTrue(v.Get("allowDefaultNamespace")) {
		r.note(model.Error, "chart-refuses", d, d.Root, "", "the chart refuses to be installed in namespace default unless allowDefaultNamespace is true", "install it in a namespace of its own, for example nvidia-device-plugin")
	}
	if a := v.Get("affinity"); a != nil && a.Kind == manifest.Map && len(a.Fields) == 0 {
		r.note(model.Info, "chart-no-effect", d, a, at("affinity"), "affinity: {} leaves the chart's default affinity in force, as Helm merges maps", "write affinity: null to remove it")
	}
	if v.At("gfd", "noTimestamp") != nil || v.At("gfd", "sleepInterval") != nil {
		n := v.Get("gfd")
		r.note(model.Info, "chart-no-effect", d, n, at("gfd"), "gfd.noTimestamp and gfd.sleepInterval have no effect: the chart's template reads them from the top level", "")
	}
}

// resolvable checks that nodes without a label get a config, as the chart does.
func (r *reader) resolvable(rel release, cfg, m *manifest.Node, at string) {
	if cfg.Get("default").Str() != "" {
		return // whether it exists is checked with the ConfigMaps at hand
	}
	fallbacks := []string{"named", "single"}
	if given := cfg.Get("fallbackStrategies"); given != nil {
		fallbacks = nil
		for _, s := range items(given) {
			fallbacks = append(fallbacks, s.Str())
			if !slices.Contains([]string{"named", "single", "empty"}, s.Str()) {
				r.note(model.Error, "chart-refuses", rel.doc, s, manifest.Join(rel.path, "config.fallbackStrategies"), "unknown fallback strategy "+s.Str()+", at which the plugin's config manager exits; it knows named, single and empty", "")
			}
		}
	}
	names := map[string]bool{}
	for _, f := range m.Fields {
		names[f.Name] = true
	}
	switch {
	case slices.Contains(fallbacks, "named") && names["default"]:
	case slices.Contains(fallbacks, "single") && len(names) == 1:
	case slices.Contains(fallbacks, "empty"):
	default:
		r.note(model.Error, "chart-refuses", rel.doc, m, at,
			"the chart refuses these configs: none of them is the default for nodes without the label "+model.LabelDeviceConfig, "set config.default, or call one of them default")
	}
}

// strategies are the MIG strategies that the plugin knows (v0.20.0).
var strategies = []string{"none", "single", "mixed"}

// strategy applies the chart's migStrategy: it becomes an environment variable
// of the plugin, which wins over the config file.
func (r *reader) strategy(rel release, name string) {
	n := rel.values.Get("migStrategy")
	if n.Str() == "" {
		return
	}
	if !slices.Contains(strategies, n.Text) {
		r.note(model.Error, "mig-strategy", rel.doc, n, manifest.Join(rel.path, "migStrategy"), "unknown MIG strategy "+n.Text+", at which the plugin exits; it knows none, single and mixed", "")
		return
	}
	held := false
	for i := range r.configs {
		if r.configs[i].rank == installed {
			held = true
			r.configs[i].value.Flags.MIGStrategy = n.Text
		}
	}
	if !held && n.Text != "none" && len(r.named) == 0 {
		r.configs = append(r.configs, config{
			name: "values of " + name, rank: installed, value: deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: n.Text}},
			place: model.Place{File: rel.doc.File, Line: n.Line, Object: title(rel.doc), Field: manifest.Join(rel.path, "migStrategy")},
		})
	}
}

// unknownValues names the values that the chart does not have, each once.
func (r *reader) unknownValues(rel release) {
	top := rel.values
	if top == nil || top.Kind != manifest.Map {
		return
	}
	sections := []string{"", "config", "devicePlugin", "gfd", "mps", "cdi", "image"}
	for _, section := range sections {
		n := top
		if section != "" {
			n = top.Get(section)
		}
		if n == nil || n.Kind != manifest.Map {
			continue
		}
		seen := map[string]bool{}
		for _, f := range n.Fields {
			if !seen[f.Name] && !rel.knows(section, f.Name) {
				seen[f.Name] = true
				r.unknownValue(rel, section, f)
			}
		}
	}
}

func (r *reader) unknownValue(rel release, section string, f manifest.Field) {
	path := f.Name
	if section != "" {
		path = section + "." + f.Name
	}
	fix := ""
	for name, known := range chartValues {
		if slices.Contains(known, f.Name) && name != section {
			fix = "it belongs under " + strings.Trim(name+"."+f.Name, ".")
		}
	}
	for _, known := range chartValues[section] {
		if strings.EqualFold(known, f.Name) {
			fix = "write " + known
		}
	}
	text := "the device-plugin chart has no value " + path + ", so it has no effect"
	if rel.kerf {
		text = "kerf's chart has no value " + path + ", at which helm fails"
	}
	r.note(model.Warning, "chart-value", rel.doc, &manifest.Node{Line: f.Line}, strings.Trim(rel.path+"."+path, "."), text, fix)
}

// operator reads the plugin's part of the GPU operator's values, or of its
// ClusterPolicy, which has the same fields.
func (r *reader) operator(rel release) {
	v := rel.values
	if on := v.At("devicePlugin", "enabled"); on != nil && !isTrue(on) {
		return
	}
	p := model.Plugin{
		Name: rel.name, ChartVersion: "", AffinitySet: true, TolerateSet: true, GFD: true, NFD: true,
		Tolerations: []model.Toleration{{Key: model.NvidiaGPU, Operator: "Exists", Effect: model.NoSchedule}},
		Place:       r.place(rel),
	}
	if n := v.At("daemonsets", "tolerations"); n != nil {
		p.Tolerations = tolerations(n)
	}
	if n := v.At("nfd", "enabled"); n != nil {
		p.NFD = isTrue(n)
	}
	cfg, at := v.At("devicePlugin", "config"), strings.Trim(rel.path+".devicePlugin.config", ".")
	if data := cfg.Get("data"); data != nil && data.Kind == manifest.Map && isTrue(cfg.Get("create")) {
		r.embedded(rel.doc, data, at+".data")
		p.ConfigNames = append(p.ConfigNames, cfg.Get("name").Str())
	} else if name := cfg.Get("name"); name.Str() != "" {
		p.ConfigNames = append(p.ConfigNames, name.Text)
		r.named = append(r.named, reference{namespace: rel.namespace, name: name.Text, doc: rel.doc, node: name, path: at + ".name"})
	}
	if def := cfg.Get("default"); def.Str() != "" {
		r.defaults = append(r.defaults, choice{name: def.Text, doc: rel.doc, node: def, path: at + ".default"})
	}
	r.operatorMIG(rel)
	r.plugins = append(r.plugins, p)
}

// operatorMIG reads the operator's MIG strategy and layouts.
func (r *reader) operatorMIG(rel release) {
	v := rel.values
	if s := v.At("mig", "strategy"); s.Str() != "" {
		top := rel
		top.path = strings.Trim(rel.path+".mig", ".")
		top.values = &manifest.Node{Kind: manifest.Map, Line: s.Line, Fields: []manifest.Field{{Name: "migStrategy", Line: s.Line, Value: s}}}
		r.strategy(top, rel.name)
	}
	cfg, at := v.At("migManager", "config"), strings.Trim(rel.path+".migManager.config", ".")
	if data := cfg.Get("data"); data != nil && data.Kind == manifest.Map && isTrue(cfg.Get("create")) {
		for _, f := range data.Fields {
			path := manifest.Join(at+".data", f.Name)
			root := f.Value
			if root != nil && root.Kind == manifest.String {
				root = r.nested(rel.doc, root, path)
			}
			r.layouts(rel.doc, path, root)
		}
		return
	}
	if name := cfg.Get("name"); name.Str() != "" {
		r.named = append(r.named, reference{namespace: rel.namespace, name: name.Text, doc: rel.doc, node: name, path: at + ".name", mig: true})
	}
}
