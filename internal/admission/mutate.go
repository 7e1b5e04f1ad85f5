package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// poolLabel is how a pod selects one NodePool (Karpenter 1.15).
const poolLabel = "karpenter.sh/nodepool"

// Mutate repairs a pod at its creation, and debug containers as they are added.
// It denies nothing; whatever it leaves alone is for Validate to judge.
func (g *Guard) Mutate(ctx context.Context, req admission.Request) admission.Response {
	d, err := document(req.Object.Raw, &req.AdmissionRequest)
	if err != nil {
		g.count("failed", nil)
		return refuse(err)
	}
	if d.Kind != "Pod" {
		return admission.Allowed("")
	}
	list := pods(d, &req.AdmissionRequest)
	if len(list) != 1 {
		return admission.Allowed("")
	}
	patches, err := g.patches(ctx, d, &list[0], &req.AdmissionRequest)
	if err != nil {
		g.count("failed", nil)
		return fail(err)
	}
	if len(patches) == 0 {
		return admission.Allowed("")
	}
	g.count("repaired", nil)
	return admission.Patched("", patches...)
}

func (g *Guard) patches(ctx context.Context, d manifest.Document, p *guard.Pod, req *admissionv1.AdmissionRequest) ([]jsonpatch.Operation, error) {
	facts, err := g.Cluster.Facts(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []jsonpatch.Operation
	if req.Operation == admissionv1.Create {
		add, err := g.tolerations(ctx, d, p)
		if err != nil {
			return nil, err
		}
		out = appendTo(out, "/spec/tolerations", len(p.Tolerations) > 0, add)
	}
	for _, c := range g.voids(p, facts, req) {
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
func (g *Guard) voids(p *guard.Pod, f *guard.Facts, req *admissionv1.AdmissionRequest) []*guard.Container {
	list := guard.Voids(p, f, g.Exemptions)
	if req.Operation == admissionv1.Create {
		return list
	}
	before := map[string]bool{}
	if old, err := document(req.OldObject.Raw, req); err == nil {
		for _, o := range pods(old, req) {
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
		for _, name := range extended(p) {
			t := model.Toleration{Key: name, Operator: "Exists", Effect: model.NoSchedule}
			if !slices.Contains(have, t) {
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
	var out []string
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.List == "ephemeralContainers" {
			continue
		}
		for _, a := range slices.Concat(c.Limits, c.Requests) {
			if isExtended(a.Name) && !slices.Contains(out, a.Name) {
				out = append(out, a.Name)
			}
		}
	}
	slices.Sort(out)
	return out
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
