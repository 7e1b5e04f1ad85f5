package install

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kerfdev/kerf/api/deviceconfig"
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// daemonSet recognises the plugin, and feature discovery, by their images.
func (r *reader) daemonSet(d manifest.Document) {
	spec := d.Root.At("spec", "template", "spec")
	var plugin, manager *manifest.Node
	for _, c := range items(spec.Get("containers")) {
		image := c.Get("image").Str()
		switch {
		case strings.Contains(image, "node-feature-discovery"):
			r.nfd = true
		case strings.Contains(image, "gpu-feature-discovery") || runs(c, "gpu-feature-discovery"):
			r.gfd = true
		case runs(c, "config-manager"):
			manager = c
		case strings.Contains(image, "kerf-node"):
			plugin, r.gfd = c, true // it labels its node itself
		case strings.Contains(image, "k8s-device-plugin") && !runs(c, "mps-control-daemon"):
			plugin = c
		}
	}
	if plugin == nil {
		return
	}
	p := model.Plugin{
		Name: d.Name, NodeSelector: labels(spec.Get("nodeSelector")),
		Affinity: affinity(spec.Get("affinity")), AffinitySet: true,
		Tolerations: tolerations(spec.Get("tolerations")), TolerateSet: true,
		Place: model.Place{File: d.File, Line: d.Root.Line, Object: title(d)},
	}
	r.daemonConfigs(d, &p, spec, plugin, manager)
	r.plugins = append(r.plugins, p)
}

// runs reports whether a container starts the program.
func runs(c *manifest.Node, program string) bool {
	for _, field := range []string{"command", "args"} {
		if slices.ContainsFunc(items(c.Get(field)), func(n *manifest.Node) bool { return strings.HasSuffix(n.Str(), program) }) {
			return true
		}
	}
	return false
}

// daemonConfigs finds the ConfigMaps that the plugin's pods read: all that the
// config manager may choose from, or the one that --config-file lies in.
func (r *reader) daemonConfigs(d manifest.Document, p *model.Plugin, spec, plugin, manager *manifest.Node) {
	file := cmp.Or(flag(plugin, "config-file"), env(plugin, "CONFIG_FILE"))
	if cmp.Or(flag(plugin, "config-dir"), env(plugin, "CONFIG_FILE_SRCDIR")) != "" {
		manager = plugin // kerf-node follows label and ConfigMap itself
	}
	p.NoConfig = file == "" && manager == nil
	if p.NoConfig {
		r.strategyOf(d, plugin)
		return
	}
	for _, v := range items(spec.Get("volumes")) {
		name := v.At("configMap", "name")
		if name.Str() == "" || !mounted(plugin, v.Get("name").Str()) && !mounted(manager, v.Get("name").Str()) {
			continue
		}
		p.ConfigNames = append(p.ConfigNames, name.Text)
		r.named = append(r.named, reference{
			namespace: d.Namespace, name: name.Text, doc: d, node: name, path: "spec.template.spec.volumes", strategy: migStrategy(plugin),
		})
	}
	def := cmp.Or(flag(manager, "default-config"), env(manager, "DEFAULT_CONFIG"))
	if manager == nil {
		def = file[strings.LastIndex(file, "/")+1:]
	}
	if def != "" {
		r.defaults = append(r.defaults, choice{name: def, doc: d, node: plugin, path: "spec.template.spec.containers"})
	}
}

// strategyOf reads the MIG strategy of a plugin without a config file.
func (r *reader) strategyOf(d manifest.Document, plugin *manifest.Node) {
	strategy := migStrategy(plugin)
	if strategy != "single" && strategy != "mixed" {
		return
	}
	r.configs = append(r.configs, config{
		name: "flags of " + d.Name, rank: installed, value: deviceconfig.Config{Flags: deviceconfig.Flags{MIGStrategy: strategy}},
		place: model.Place{File: d.File, Line: plugin.Line, Object: title(d)},
	})
}

func migStrategy(plugin *manifest.Node) string {
	return cmp.Or(flag(plugin, "mig-strategy"), env(plugin, "MIG_STRATEGY"))
}

func mounted(c *manifest.Node, volume string) bool {
	return slices.ContainsFunc(items(c.Get("volumeMounts")), func(m *manifest.Node) bool { return m.Get("name").Str() == volume })
}

// env is the literal value of a container's environment variable.
func env(c *manifest.Node, name string) string {
	value := ""
	for _, e := range items(c.Get("env")) {
		if e.Get("name").Str() == name {
			value = e.Get("value").Str()
		}
	}
	return value
}

// flag is the value of --name=value or --name value among command and args.
func flag(c *manifest.Node, name string) string {
	words := append(slices.Clone(items(c.Get("command"))), items(c.Get("args"))...)
	for i, w := range words {
		if value, ok := strings.CutPrefix(w.Str(), "--"+name+"="); ok {
			return value
		}
		if w.Str() == "--"+name && i+1 < len(words) {
			return words[i+1].Str()
		}
	}
	return ""
}

// labels reads a map of texts.
func labels(n *manifest.Node) map[string]string {
	if n == nil || n.Kind != manifest.Map {
		return nil
	}
	out := map[string]string{}
	for _, f := range n.Fields {
		out[f.Name] = n.Get(f.Name).Str()
	}
	return out
}

func tolerations(n *manifest.Node) []model.Toleration {
	var out []model.Toleration
	for _, t := range items(n) {
		out = append(out, model.Toleration{
			Key: t.Get("key").Str(), Operator: t.Get("operator").Str(), Value: t.Get("value").Str(), Effect: t.Get("effect").Str(),
		})
	}
	return out
}

// affinity reads the node affinity that is required.
func affinity(n *manifest.Node) []model.Term {
	var out []model.Term
	for _, t := range items(n.At("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")) {
		var term model.Term
		for _, e := range items(t.Get("matchExpressions")) {
			req := model.Requirement{Key: e.Get("key").Str(), Operator: model.Operator(e.Get("operator").Str()), Line: e.LineOf()}
			for _, v := range items(e.Get("values")) {
				req.Values = append(req.Values, v.Str())
			}
			term = append(term, req)
		}
		out = append(out, term)
	}
	return out
}
