package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// poolLabel is how a pod selects one NodePool (Karpenter 1.15).
const poolLabel = "karpenter.sh/nodepool"

func (g *Guard) mutate(ctx context.Context, r *request) (response, error) {
	d, err := r.document(r.object)
	if err != nil || d.Kind != "Pod" {
		return allowed(), err
	}
	list := r.pods(d)
	if len(list) != 1 {
		return allowed(), nil
	}
	patches, err := g.patches(ctx, d, &list[0], r)
	if err != nil || len(patches) == 0 {
		return allowed(), err
	}
	out := allowed()
	out.PatchType = "JSONPatch"
	if out.Patch, err = json.Marshal(patches); err == nil {
		g.count("repaired", nil)
	}
	return out, err
}

func (g *Guard) patches(ctx context.Context, d manifest.Document, p *guard.Pod, r *request) ([]jsonpatch.Operation, error) {
	facts, err := g.Cluster.Facts(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []jsonpatch.Operation
	if r.operation == create {
		add, err := g.tolerations(ctx, d, p)
		if err != nil {
			return nil, err
		}
		out = appendTo(out, "/spec/tolerations", len(p.Tolerations) > 0, add)
	}
	for _, c := range g.voids(p, facts, r) {
		entry := map[string]any{"name": guard.VisibleDevices, "value": "void"}
		out = appendTo(out, fmt.Sprintf("/spec/%s/%d/env", c.List, c.Index), len(c.Env) > 0, []any{entry})
	}
	return out, nil
}

// appendTo makes the operations that add items to a list, which may not be there.
func appendTo(ops []jsonpatch.Operation, path string, there bool, items []any) []jsonpatch.Operation {
	if len(items) == 0 {
		return ops
	}
	if !there {
		return append(ops, jsonpatch.NewOperation("add", path, items))
	}
	for _, item := range items {
		ops = append(ops, jsonpatch.NewOperation("add", path+"/-", item))
	}
	return ops
}

// voids lists the containers to which no GPU is to be shown: of a new pod, or
// the debug containers that an update adds.
func (g *Guard) voids(p *guard.Pod, f *guard.Facts, r *request) []*guard.Container {
	list := guard.Voids(p, f, g.Exemptions)
	if r.operation == create {
		return list
	}
	before := map[string]bool{}
	if old, err := r.document(r.oldObject); err == nil {
		for _, o := range r.pods(old) {
			for i := range o.Containers {
				before[o.Containers[i].List+"/"+o.Containers[i].Name] = true
			}
		}
	}
	return slices.DeleteFunc(list, func(c *guard.Container) bool {
		return c.List != "ephemeralContainers" || before[c.List+"/"+c.Name]
	})
}

// tolerations are those that a new pod lacks.
func (g *Guard) tolerations(ctx context.Context, d manifest.Document, p *guard.Pod) ([]any, error) {
	var out []any
	have := slices.Clone(p.Tolerations)
	if !g.Cluster.AddsTolerations() {
		there := map[model.Toleration]bool{}
		for _, t := range have {
			there[t] = true
		}
		for _, name := range extended(p) {
			if t := (model.Toleration{Key: name, Operator: "Exists", Effect: model.NoSchedule}); !there[t] {
				have, out = append(have, t), append(out, toleration(t))
			}
		}
	}
	pool := d.Root.At("spec", "nodeSelector").Get(poolLabel).Str()
	if pool == "" || !asksGPU(p) {
		return out, nil
	}
	taints, err := g.Cluster.Taints(ctx, pool)
	if err != nil {
		return nil, err
	}
	for _, taint := range taints {
		if _, ok := constraint.Tolerates(have, []model.Taint{taint}); ok || taint.Effect == model.PreferNoSchedule {
			continue
		}
		t := model.Toleration{Key: taint.Key, Operator: "Equal", Value: taint.Value, Effect: taint.Effect}
		have, out = append(have, t), append(out, toleration(t))
	}
	return out, nil
}

func toleration(t model.Toleration) map[string]any {
	out := map[string]any{"key": t.Key, "operator": t.Operator, "effect": t.Effect}
	if t.Value != "" {
		out["value"] = t.Value
	}
	return out
}

// extended lists, sorted, the extended resources that containers name, as the
// ExtendedResourceToleration plugin of Kubernetes 1.37 does: whatever the
// amount, 0 included, and not those of debug containers.
func extended(p *guard.Pod) []string {
	names := map[string]bool{}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.List == "ephemeralContainers" {
			continue
		}
		for _, list := range [][]guard.Amount{c.Limits, c.Requests} {
			for _, a := range list {
				if isExtended(a.Name) {
					names[a.Name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// isExtended follows Kubernetes 1.37: a name with a domain that is not
// Kubernetes' own, and that is no quota key.
func isExtended(name string) bool {
	return strings.Contains(name, "/") && !strings.Contains(name, "kubernetes.io/") && !strings.HasPrefix(name, "requests.")
}

// asksGPU reports whether the pod asks for GPUs or for a claim.
func asksGPU(p *guard.Pod) bool {
	return p.Claims || slices.ContainsFunc(p.Containers, func(c guard.Container) bool {
		return c.Claims || slices.ContainsFunc(slices.Concat(c.Limits, c.Requests), func(a guard.Amount) bool {
			return a.Value > 0 && model.IsGPU(a.Name)
		})
	})
}
