package hands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/constraint"
	"github.com/kerfdev/kerf/internal/gpu"
	"github.com/kerfdev/kerf/internal/model"
)

// A cause is why a node advertises no GPUs, as well as can be seen from outside.
type cause struct {
	reason     string // of the condition
	text       string // what is wrong, and what to do about it
	certain    bool   // it will not pass by itself, so it is said before the deadline
	everywhere bool   // every node of the pool would have it
}

// A situation is what is known before the cause is looked for.
type situation struct {
	claim     *karpenter.NodeClaim
	lacking   []string
	predicted model.Resources
	refused   error // why the plugin would not start under the config
	ghost     bool  // GPUs were there and are gone
}

// why finds the cause: what nobody could come up under first, then the plugin's
// pod, then the hardware.
func (w *watcher) why(ctx context.Context, node *corev1.Node, s situation) (cause, error) {
	switch {
	case len(s.lacking) > 0 && !slices.ContainsFunc(s.lacking, nvidia):
		return cause{reason: "NothingAdvertised", text: "nothing on the node advertises them; look at the device plugin of their vendor"}, nil
	case s.refused != nil:
		return refusal(s.refused), nil
	case s.ghost:
		return cause{reason: reasonDied, text: "the node advertised GPUs and then none; look at its driver and at the log of its device plugin", certain: true}, nil
	case !ready(node):
		return cause{reason: "NodeNotReady", text: "the node is not ready, so no device plugin runs on it"}, nil
	}
	if c, ok := renamed(s); ok {
		return c, nil
	}
	installed, err := w.configs.Current(ctx)
	if err != nil {
		return cause{}, fmt.Errorf("read device configs: %w", err)
	}
	return w.plugin(ctx, s.claim, node, installed)
}

func nvidia(name string) bool { return cloud.Shareable(corev1.ResourceName(name)) }

// refused reports whether an error means that the plugin would not start, and
// not that nobody could be asked.
func refused(err error) bool {
	var config *gpu.ConfigError
	var name *gpu.LayoutNameError
	var layout *gpu.LayoutError
	var sharing *gpu.SharingError
	return errors.As(err, &config) || errors.As(err, &name) || errors.As(err, &layout) || errors.As(err, &sharing)
}

// refusal is the cause that gpu.ForNode names.
func refusal(err error) cause {
	out := cause{reason: "ConfigRefused", text: err.Error(), certain: true}
	var config *gpu.ConfigError
	var layout *gpu.LayoutNameError
	switch {
	case errors.As(err, &config):
		out.reason, out.everywhere = "NoSuchConfig", true
	case errors.As(err, &layout):
		out.reason, out.everywhere = "NoSuchLayout", true
	}
	return out
}

// renamed tells that the config no longer gives what the claim was bought for.
func renamed(s situation) (cause, bool) {
	if len(s.predicted) == 0 || len(s.lacking) == 0 || slices.ContainsFunc(s.lacking, func(name string) bool { return s.predicted[name] > 0 }) {
		return cause{}, false
	}
	return cause{
		reason: "ConfigChanged", certain: true, everywhere: true,
		text: fmt.Sprintf("the node's device config gives %s and not %s; ask for that, or choose another config", strings.Join(s.predicted.Names(), ", "), strings.Join(s.lacking, ", ")),
	}, true
}

// plugin looks for the pod that would advertise the node's GPUs.
func (w *watcher) plugin(ctx context.Context, claim *karpenter.NodeClaim, node *corev1.Node, installed *cloud.Installation) (cause, error) {
	var pods corev1.PodList
	if err := w.client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return cause{}, fmt.Errorf("list the pods of node %s: %w", node.Name, err)
	}
	for i := range pods.Items {
		if cloud.RunsPlugin(&pods.Items[i].Spec) {
			return aboutPod(&pods.Items[i]), nil
		}
	}
	if len(installed.DaemonSets) == 0 {
		return w.unseen(ctx, claim)
	}
	return w.absent(ctx, node, installed.DaemonSets)
}

// unseen is the cause where no DaemonSet of a plugin is in the cluster: there is
// no plugin, unless other nodes of the node class show that its machine image
// brings one.
func (w *watcher) unseen(ctx context.Context, claim *karpenter.NodeClaim) (cause, error) {
	var all karpenter.NodeClaimList
	if err := w.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return cause{}, fmt.Errorf("list nodeclaims: %w", err)
	}
	for i := range all.Items {
		c := &all.Items[i]
		if c.Name != claim.Name && equality.Semantic.DeepEqual(c.Spec.NodeClassRef, claim.Spec.NodeClassRef) && hadGPUs(c) {
			return cause{
				reason: "NothingAdvertised",
				text:   fmt.Sprintf("nothing on the node advertises them, while node %s of the same node class has its GPUs: this machine has no working GPU or driver; look at its console", c.Status.NodeName),
			}, nil
		}
	}
	return cause{
		reason: "NoPlugin", everywhere: true,
		text: "nothing advertises them, and no DaemonSet of the NVIDIA device plugin or of kerf-node is in the cluster; install one, unless the machine image brings its own",
	}, nil
}

// hadGPUs reports whether GPUs ever came up on a claim's node. It does not write
// to the claim, as StatusConditions may.
func hadGPUs(c *karpenter.NodeClaim) bool {
	return slices.ContainsFunc(c.GetConditions(), func(s status.Condition) bool {
		return s.Type == ConditionGPUs && (s.IsTrue() || cameUp(s.Reason))
	})
}

// aboutPod says how the plugin's pod is.
func aboutPod(p *corev1.Pod) cause {
	name := p.Namespace + "/" + p.Name
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if waiting := s.State.Waiting; waiting != nil && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing" {
			why := waiting.Message
			if t := s.LastTerminationState.Terminated; t != nil {
				why = cmp.Or(t.Message, why)
			}
			return cause{
				reason: "PluginCrashing", certain: true,
				text: strings.TrimSuffix(fmt.Sprintf("the plugin's pod %s does not start (%s): %s", name, waiting.Reason, why), ": "),
			}
		}
	}
	switch p.Status.Phase {
	case corev1.PodRunning:
		return cause{
			reason: "NothingAdvertised",
			text:   "the plugin's pod " + name + " runs and advertises nothing; the node has no working GPU or driver, its log says which",
		}
	case corev1.PodFailed:
		return cause{reason: "PluginCrashing", certain: true, text: fmt.Sprintf("the plugin's pod %s failed: %s %s", name, p.Status.Reason, p.Status.Message)}
	}
	return cause{reason: "PluginStarting", text: "the plugin's pod " + name + " has not started yet"}
}

// absent says why no DaemonSet has put the plugin on the node.
func (w *watcher) absent(ctx context.Context, node *corev1.Node, names []types.NamespacedName) (cause, error) {
	var out cause
	for _, name := range names {
		var d appsv1.DaemonSet
		if err := w.client.Get(ctx, name, &d); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return cause{}, fmt.Errorf("get daemonset %s: %w", name, err)
		}
		c := keptOff(&d, node)
		if out.text != "" {
			c.text = out.text + "; " + c.text
			c.reason, c.everywhere, c.certain = out.reason, c.everywhere && out.everywhere, c.certain && out.certain
		}
		out = c
	}
	if out.text == "" {
		out = cause{reason: "NoPlugin", text: "the plugin's DaemonSet was deleted", everywhere: true}
	}
	return out, nil
}

// keptOff is why a DaemonSet has no pod on a node. Its controller tolerates the
// taints of Kubernetes itself.
func keptOff(d *appsv1.DaemonSet, node *corev1.Node) cause {
	name := "DaemonSet " + d.Namespace + "/" + d.Name
	spec := &d.Spec.Template.Spec
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue
		}
		if scheduling.Taints([]corev1.Taint{*t}).Tolerates(spec.Tolerations) != nil {
			return cause{
				reason: "TaintNotTolerated", certain: true, everywhere: true,
				text: fmt.Sprintf("%s does not tolerate the node's taint %s, so the plugin does not run there; add the toleration {key: %s, operator: Exists}", name, t.ToString(), t.Key),
			}
		}
	}
	if failed, ok := constraint.MatchNode(podSpec(spec), node.Labels); !ok {
		return cause{
			reason: "NotSelected", certain: true, everywhere: true,
			text: fmt.Sprintf("%s does not select the node: it wants %s, and the node has %s", name, requirement(failed), has(node.Labels, failed.Key)),
		}
	}
	return cause{reason: "PluginStarting", text: name + " should run on the node and has no pod there yet"}
}

// podSpec is where a pod may run, in the model's terms.
func podSpec(spec *corev1.PodSpec) *model.PodSpec {
	out := &model.PodSpec{NodeSelector: spec.NodeSelector}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return out
	}
	for _, t := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var term model.Term
		for _, e := range t.MatchExpressions {
			term = append(term, model.Requirement{Key: e.Key, Operator: model.Operator(e.Operator), Values: e.Values})
		}
		out.NodeAffinity = append(out.NodeAffinity, term)
	}
	return out
}

func requirement(r model.Requirement) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ", ")))
}

func has(labels map[string]string, key string) string {
	if v, ok := labels[key]; ok {
		return v
	}
	return "no such label"
}
