package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/model"
)

// asks writes what decides where the pod may run, after the API server's defaulting.
func (p *page) asks(s *model.PodSpec) {
	if s == nil {
		return
	}
	p.item("asks", resources(s.Requests)+" (after defaulting)")
	for _, c := range s.Containers {
		if len(s.Containers) > 1 {
			p.item("  "+c.Name, strings.TrimSpace(containerRole(c)+" "+resources(c.Requests)))
		}
	}
	for _, d := range s.Shares {
		p.item("shares", fmt.Sprintf("%d × %s, of each %s", d.Count, shortResource(d.Resource), resources(d.PerDevice)))
	}
	p.item("node selector", pairs(s.NodeSelector))
	for i, t := range s.NodeAffinity {
		label := "node affinity"
		if i > 0 {
			label = "  or"
		}
		p.item(label, termText(t))
	}
	for _, t := range s.NodePreferred {
		p.item("prefers", fmt.Sprintf("%s (weight %d)", termText(t.Term), t.Weight))
	}
	for _, t := range s.Tolerations {
		p.item("tolerates", tolerationText(t))
	}
	for _, t := range s.Spread {
		p.item("spreads", spreadText(t))
	}
	for _, t := range s.PodAffinity {
		p.item("pod affinity", podTermText(t))
	}
	for _, h := range s.HostPorts {
		p.item("host port", fmt.Sprintf("%d/%s", h.Port, h.Protocol))
	}
	for _, v := range s.Volumes {
		p.item("volume", volumeText(v))
	}
	if s.Priority != 0 {
		p.item("priority", strconv.Itoa(int(s.Priority)))
	}
	p.item("waits for", strings.Join(s.Gates, ", "))
	p.item("claims", strings.Join(s.Claims, ", "))
}

func containerRole(c model.Container) string {
	switch {
	case c.Sidecar:
		return "(sidecar)"
	case c.Init:
		return "(init)"
	}
	return ""
}

// resources writes amounts, GPUs first, without the pod itself.
func resources(r model.Resources) string {
	var gpus, rest []string
	for _, name := range r.Names() {
		switch {
		case name == model.Pods || r[name] == 0:
		case model.IsGPU(name):
			gpus = append(gpus, name+" "+amount(name, r[name]))
		default:
			rest = append(rest, name+" "+amount(name, r[name]))
		}
	}
	if len(gpus)+len(rest) == 0 {
		return "nothing"
	}
	return strings.Join(append(gpus, rest...), ", ")
}

func pairs(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+" = "+m[k])
	}
	return strings.Join(parts, ", ")
}

func termText(t model.Term) string {
	var parts []string
	for _, r := range t {
		parts = append(parts, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+valuesText(r.Values)))
	}
	return strings.Join(parts, " and ")
}

func valuesText(values []string) string {
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 8:
		return fmt.Sprintf("[%s … %d more]", strings.Join(values[:6], ", "), len(values)-6)
	}
	return "[" + strings.Join(values, ", ") + "]"
}

func tolerationText(t model.Toleration) string {
	key := t.Key
	if key == "" {
		key = "every taint"
	}
	if t.Operator != "Exists" && t.Key != "" {
		key += "=" + t.Value
	}
	if t.Effect != "" {
		key += ":" + t.Effect
	}
	if t.Assumed {
		key += " (assumed: the ExtendedResourceToleration admission plugin adds it)"
	}
	return key
}

func spreadText(s model.Spread) string {
	text := fmt.Sprintf("over %s, at most %d apart", s.TopologyKey, s.MaxSkew)
	if s.Soft {
		text += ", if possible"
	}
	return text
}

func podTermText(t model.PodTerm) string {
	text := "with"
	if t.Anti {
		text = "away from"
	}
	text += " pods that match " + selectorText(t.Selector) + " per " + t.TopologyKey
	if t.Weight > 0 {
		text += fmt.Sprintf(", if possible (weight %d)", t.Weight)
	}
	return text
}

func selectorText(s model.Selector) string {
	switch {
	case len(s.Term) > 0:
		return termText(s.Term)
	case s.All:
		return "anything"
	}
	return "nothing"
}

func volumeText(v model.Volume) string {
	var parts []string
	for _, t := range v.Terms {
		parts = append(parts, termText(t))
	}
	return strings.TrimSuffix(v.Claim+", only where "+strings.Join(parts, ", or "), ", only where ")
}
