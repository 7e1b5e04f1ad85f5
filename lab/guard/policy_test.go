package guard

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/policy"
	"github.com/kerfdev/kerf/internal/source"
)

var errRepaired = errors.New("a pod was changed")

// apply creates what kerf guard policies writes, until the test ends.
func (u *user) apply(t *testing.T, text []byte) {
	t.Helper()
	docs, notes := source.Parse(source.File{Name: "policies.yaml", Data: text})
	if len(notes) > 0 || len(docs) == 0 {
		t.Fatalf("%d documents: %v", len(docs), notes)
	}
	t.Cleanup(func() {
		for _, d := range docs {
			err := u.any.Resource(resourceOf(d.Kind)).Delete(context.Background(), d.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		u.admits(t)
		u.unrepaired(t)
	})
	for _, d := range docs {
		object := &unstructured.Unstructured{Object: *as[map[string]any](t, d)}
		_, err := u.any.Resource(resourceOf(d.Kind)).Create(t.Context(), object, metav1.CreateOptions{})
		must(t, err)
	}
}

func resourceOf(kind string) schema.GroupVersionResource {
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "Policy") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: plural}
}

// enforces waits for the policies beside the one that refuses pods.
func (u *user) enforces(t *testing.T) {
	t.Helper()
	warned := thief("p")
	warned.Spec.Containers[0].Env = nil
	warned.Spec.Containers[0].Image = "example.com/app:1"
	warned.Spec.HostIPC = true
	eventually(t, "the API server warns of pods", func() error {
		u.warned()
		_, err := u.try(t.Context(), "probe", warned)
		if err == nil && !slices.Contains(named(u.warned()...), "host-ipc") {
			err = errors.New("no warning")
		}
		return err
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
	}}
	eventually(t, "the API server refuses quotas", func() error {
		_, err := u.CoreV1().ResourceQuotas("probe").Create(t.Context(), quota, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("it was let in")
		}
		return nil
	})
	eventually(t, "the API server warns of templates", func() error {
		u.warned()
		_, err := u.AppsV1().Deployments("probe").Create(t.Context(), deployment(thief("p").Spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && len(named(u.warned()...)) == 0 {
			err = errors.New("no warning")
		}
		return err
	})
}

// The mutating policy does what the webhook's repair does about images that name
// GPUs.
func TestTheMutatingPolicyShowsNoGPUs(t *testing.T) {
	u := newUser(t)
	ns := u.scratch(t)
	u.namespace(t, "probe", nil)
	u.apply(t, policy.Mutation(policy.Options{Exemptions: guard.DefaultExemptions()}).YAML())
	eventually(t, "a pod is given the variable", func() error {
		p, err := u.try(t.Context(), ns, honest("p"))
		if err == nil && env(p, "NVIDIA_VISIBLE_DEVICES") != "void" {
			err = errors.New("it is not")
		}
		return err
	})
	both := honest("p")
	both.Spec.Containers = append(both.Spec.Containers, gpuContainer("gpu"))
	both.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "example.com/app:1"}}
	p, err := u.try(t.Context(), ns, both)
	if err != nil {
		t.Fatal(err)
	}
	if env(p, "NVIDIA_VISIBLE_DEVICES") != "void" || len(p.Spec.Containers[1].Env) > 0 || len(p.Spec.InitContainers[0].Env) != 1 {
		t.Errorf("variables: %v, %v, %v", p.Spec.Containers[0].Env, p.Spec.Containers[1].Env, p.Spec.InitContainers[0].Env)
	}
	if p, err := u.try(t.Context(), "kube-system", honest("p")); err != nil || env(p, "NVIDIA_VISIBLE_DEVICES") != "" {
		t.Errorf("an exempt namespace: %v, %v", p, err)
	}
}

// env is a variable of a pod's first container.
func env(p *corev1.Pod, name string) string {
	for _, e := range p.Spec.Containers[0].Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func gpuContainer(name string) corev1.Container {
	return corev1.Container{Name: name, Image: "example.com/app:1", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
	}}
}
