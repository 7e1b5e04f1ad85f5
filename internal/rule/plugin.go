package rule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/model"
)

const labelGPUPresent = "nvidia.com/gpu.present"

// chartTolerations are the device-plugin chart's, from 0.14 to 0.20.
var chartTolerations = []model.Toleration{
	{Key: "CriticalAddonsOnly", Operator: "Exists"},
	{Key: model.NvidiaGPU, Operator: "Exists", Effect: model.NoSchedule},
}

// daemonTolerations are those that the DaemonSet controller adds to its pods
// (Kubernetes 1.37).
var daemonTolerations = []model.Toleration{
	{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: model.NoExecute},
	{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: model.NoExecute},
	{Key: "node.kubernetes.io/disk-pressure", Operator: "Exists", Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/memory-pressure", Operator: "Exists", Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/pid-pressure", Operator: "Exists", Effect: model.NoSchedule},
	{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: model.NoSchedule},
}

// nfdTolerations are those of the NFD worker in the chart, of which the second
// matters: it wants the taint's value to be "present" (chart 0.20).
var nfdTolerations = []model.Toleration{
	{Key: "node-role.kubernetes.io/master", Operator: "Equal", Effect: model.NoSchedule},
	{Key: model.NvidiaGPU, Operator: "Equal", Value: "present", Effect: model.NoSchedule},
}

// chartAffinity is the chart's default node affinity from 0.15 on. NFD sets the
// first two labels; nothing in the chart sets the third.
var chartAffinity = []model.Term{
	{{Key: "feature.node.kubernetes.io/pci-10de.present", Operator: model.In, Values: []string{"true"}}},
	{{Key: "feature.node.kubernetes.io/cpu-model.vendor_id", Operator: model.In, Values: []string{"NVIDIA"}}},
	{{Key: labelGPUPresent, Operator: model.In, Values: []string{"true"}}},
}

// given returns the tolerations that the plugin's values lead to.
func given(p model.Plugin) []model.Toleration {
	if p.Chart && !p.TolerateSet {
		return chartTolerations
	}
	return p.Tolerations
}

// untolerated lists the pool's taints that keep the plugin's pods off its nodes.
func untolerated(p model.Plugin, taints []model.Taint) []model.Taint {
	have := slices.Concat(given(p), daemonTolerations)
	var out []model.Taint
	for _, t := range taints {
		if _, ok := constraint.Tolerates(have, []model.Taint{t}); !ok {
			out = append(out, t)
		}
	}
	return out
}

// selects reports whether the plugin's own selector and affinity admit some
// NVIDIA node of the pool, and else the key on which they fail.
func selects(p model.Plugin, pv *poolView) (key string, ok bool) {
	key, fails := pv.conflict(ownSelector(p), discovered(p))
	return key, !fails
}

// ownSelector is the selector and affinity that the plugin's values give.
func ownSelector(p model.Plugin) *model.PodSpec {
	spec := &model.PodSpec{NodeSelector: p.NodeSelector}
	if p.AffinitySet {
		spec.NodeAffinity = p.Affinity
	}
	return spec
}

// discovered names the labels that feature discovery may put on nodes. NFD is
// often installed on its own, so its labels are given the benefit of the doubt.
func discovered(p model.Plugin) func(string) bool {
	return func(key string) bool {
		return strings.HasPrefix(key, "feature.node.kubernetes.io/") ||
			(p.GFD && key != labelGPUPresent && strings.HasPrefix(key, "nvidia.com/"))
	}
}

// An era says whether the chart's version has the default affinity.
type era uint8

const (
	before   era = iota // older than 0.15, or not the chart, or the affinity is overridden
	maybe               // the version is not known
	affinity            // 0.15 or later
)

func eraOf(p model.Plugin) era {
	if !p.Chart || p.AffinitySet {
		return before
	}
	major, minor, ok := version(p.ChartVersion)
	switch {
	case !ok:
		return maybe
	case major > 0 || minor >= 15:
		return affinity
	}
	return before
}

// version reads the first two numbers of an exact version; ranges are not known.
func version(s string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(s, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err1 == nil && err2 == nil
}

// labelled reports whether the pool's nodes meet the chart's default affinity
// whatever runs on them.
func labelled(pv *poolView) bool {
	spec := &model.PodSpec{NodeAffinity: chartAffinity}
	_, fails := pv.conflict(spec, nil)
	return !fails
}

func discovers(p model.Plugin) bool { return p.NFD || p.GFD }

// lands reports whether the plugin runs on the pool's nodes for certain.
func lands(p model.Plugin, pv *poolView) bool {
	return allowed(p, pv) && (eraOf(p) == before || labelled(pv) || (discovers(p) && !nfdStuck(p, pv)))
}

// allowed is lands, with the labels that the chart's default affinity wants
// taken as given.
func allowed(p model.Plugin, pv *poolView) bool {
	_, ok := selects(p, pv)
	return ok && len(untolerated(p, pv.Taints)) == 0
}

// nfdStuck reports whether the chart's NFD worker cannot reach the pool's nodes.
func nfdStuck(p model.Plugin, pv *poolView) bool {
	tols := p.NFDTolerations
	if tols == nil {
		tols = nfdTolerations
	}
	_, ok := constraint.Tolerates(slices.Concat(tols, daemonTolerations), pv.Taints)
	return !ok
}

// served reports whether some plugin runs on the pool's nodes for certain.
func (v *view) served(pv *poolView) bool {
	return slices.ContainsFunc(v.Plugins, func(p model.Plugin) bool { return lands(p, pv) })
}

// wants lists the pools that no plugin serves and for which this one is meant:
// its own selector admits their nodes.
func (v *view) wants(p model.Plugin) []*poolView {
	var out []*poolView
	for _, pv := range v.gpuPools() {
		if v.served(pv) {
			continue
		}
		if _, ok := selects(p, pv); ok {
			out = append(out, pv)
		}
	}
	return out
}
