package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/kerfdev/kerf/internal/admission"
)

// The plane runs the ExtendedResourceToleration plugin, as managed clusters do.
func TestTheProbeFindsThatTheAPIServerAddsTolerations(t *testing.T) {
	u := newUser(t)
	u.namespace(t, own, nil)
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &admission.APIServer{Cached: c, Direct: c, Namespace: own}
	go func() { _ = a.Start(t.Context()) }()
	eventually(t, "the probe finds the plugin", func() error {
		if !a.AddsTolerations() {
			return errors.New("it has not")
		}
		return nil
	})
}

// pool makes a NodePool whose nodes have a taint beside the usual one.
func pool(t *testing.T, name string, taints ...corev1.Taint) {
	t.Helper()
	c, err := client.New(config, client.Options{}) // importing Karpenter's types put them into the default scheme
	if err != nil {
		t.Fatal(err)
	}
	np := &karpenter.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	np.Spec.Template.Spec.NodeClassRef = &karpenter.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	np.Spec.Template.Spec.Requirements = []karpenter.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}},
	}
	np.Spec.Template.Spec.Taints = taints
	must(t, c.Create(t.Context(), np))
	t.Cleanup(func() { _ = c.Delete(context.Background(), np) })
}

func TestRepair(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	pool(t, "shared", corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule})
	guarded(t, u)
	ask := honest("p")
	ask.Spec.NodeSelector = map[string]string{karpenter.NodePoolLabelKey: "shared"}
	ask.Spec.Containers = append(ask.Spec.Containers, gpuContainer("gpu"))
	p, err := u.try(t.Context(), ns, ask)
	if err != nil {
		t.Fatal(err)
	}
	if env(p, "NVIDIA_VISIBLE_DEVICES") != "void" || len(p.Spec.Containers[1].Env) > 0 {
		t.Errorf("variables: %v and, of the container with a GPU, %v", p.Spec.Containers[0].Env, p.Spec.Containers[1].Env)
	}
	var tolerations []string
	for _, t := range p.Spec.Tolerations {
		if t.Effect == corev1.TaintEffectNoSchedule {
			tolerations = append(tolerations, t.Key+" "+string(t.Operator)+" "+t.Value)
		}
	}
	slices.Sort(tolerations)
	if d := cmp.Diff([]string{"nvidia.com/gpu Exists ", "team Equal a"}, tolerations); d != "" {
		t.Errorf("tolerations (-want +got):\n%s", d)
	}
	for _, exempt := range []string{own, "kube-system"} {
		if p, err := u.try(t.Context(), exempt, thief("p")); err != nil || len(p.Spec.Containers[0].Env) != 1 {
			t.Errorf("a pod in %s: %v, %v", exempt, p.Spec.Containers[0].Env, err)
		}
	}
}

func deployment(spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": "app"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// What changes a pod that is there is judged too; templates are warned of.
func TestDebugContainersResizesAndTemplates(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	guarded(t, u)
	target := honest("target")
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	target.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cpu, Limits: cpu}
	if _, err := u.CoreV1().Pods(ns).Create(t.Context(), target, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The scheduler writes to the pod as well.
	stored := func() *corev1.Pod {
		p, err := u.CoreV1().Pods(ns).Get(t.Context(), "target", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.ResourceVersion = ""
		return p
	}
	debug := func(env ...corev1.EnvVar) (*corev1.Pod, error) {
		p := stored()
		c := corev1.EphemeralContainerCommon{Name: "debugger", Image: "example.com/tools:1", Env: env}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: c}}
		return u.CoreV1().Pods(ns).UpdateEphemeralContainers(t.Context(), p.Name, p, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if _, err := debug(corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}); err == nil || !strings.Contains(err.Error(), "env-visible-devices") {
		t.Errorf("a debug container that names GPUs: %v", err)
	}
	p, err := debug()
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Spec.EphemeralContainers[0].Env; len(got) != 1 || got[0].Value != "void" {
		t.Errorf("variables of a debug container: %v", got)
	}

	more := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	resized := stored()
	resized.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: more, Limits: more}
	if _, err := u.CoreV1().Pods(ns).UpdateResize(t.Context(), "target", resized, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a resize: %v", err)
	}

	u.warned()
	if _, err := u.AppsV1().Deployments(ns).Create(t.Context(), deployment(thief("p").Spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"env-visible-devices"}, named(u.warned()...)); d != "" {
		t.Errorf("warnings of a deployment (-want +got):\n%s", d)
	}
}
