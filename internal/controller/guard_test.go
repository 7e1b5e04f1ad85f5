package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestItDoesNotRunBesideKarpenter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	lease := func(name, holder string, renewed time.Time) *coordinationv1.Lease {
		at, lasts := metav1.NewMicroTime(renewed), int32(15)
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at, LeaseDurationSeconds: &lasts},
		}
	}
	deployment := func(image string, available int32) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "karpenter", Labels: map[string]string{"app.kubernetes.io/name": "karpenter"}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: image}}
		d.Status.AvailableReplicas = available
		return d
	}
	for name, c := range map[string]struct {
		there client.Object
		found string
	}{
		"its leader renews its lease":          {lease(karpenterLease, "karpenter-abc_1", now.Add(-5*time.Second)), "karpenter-abc_1 holds lease kube-system/karpenter-leader-election"},
		"its lease ran out":                    {lease(karpenterLease, "karpenter-abc_1", now.Add(-time.Minute)), ""},
		"its lease was given back":             {lease(karpenterLease, "", now), ""},
		"the lease of something else":          {lease("kerf-controller-leader-election", "kerf_1", now), ""},
		"its pods run without leader election": {deployment("public.ecr.aws/karpenter/controller:1.15.0", 2), "deployment karpenter/karpenter has 2 available"},
		"it is scaled down":                    {deployment("public.ecr.aws/karpenter/controller:1.15.0", 0), ""},
		"something else goes by its label":     {deployment("example.com/dashboard:1", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(c.there).WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string {
				return []string{o.GetName()}
			}).Build()
			err := beside(t.Context(), api, clocktesting.NewFakeClock(now))
			var found *BesideKarpenterError
			switch {
			case c.found == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.found != "" && !errors.As(err, &found):
				t.Errorf("not refused: %v", err)
			case c.found != "" && found.Found != c.found:
				t.Errorf("found %q, want %q", found.Found, c.found)
			}
		})
	}
}

func TestVersionsThatAreServed(t *testing.T) {
	mapper := func(kinds ...string) meta.RESTMapper {
		m := meta.NewDefaultRESTMapper(nil)
		for _, k := range kinds {
			kind, version, _ := strings.Cut(k, " ")
			m.Add(schema.FromAPIVersionAndKind(version, kind), meta.RESTScopeRoot)
		}
		return m
	}
	for name, c := range map[string]struct {
		served []string
		also   string
		err    string
	}{
		"v1":                 {[]string{"NodePool karpenter.sh/v1", "NodeClaim karpenter.sh/v1"}, "", ""},
		"v1 and Provisioner": {[]string{"NodePool karpenter.sh/v1", "NodeClaim karpenter.sh/v1", "Provisioner karpenter.sh/v1alpha5"}, "Provisioner karpenter.sh/v1alpha5", ""},
		"v1beta1 only":       {[]string{"NodePool karpenter.sh/v1beta1", "NodeClaim karpenter.sh/v1beta1"}, "", "kerf migrate -f -"},
		"nothing":            {nil, "", "install karpenter's CRDs"},
	} {
		t.Run(name, func(t *testing.T) {
			also, err := versions(mapper(c.served...))
			if got := strings.Join(also, ", "); got != c.also {
				t.Errorf("also %q, want %q", got, c.also)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
		})
	}
}
