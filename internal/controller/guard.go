package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// karpenterLease is the lease that Karpenter's leader holds (v1.15).
const karpenterLease = "karpenter-leader-election"

// A BesideKarpenterError says that Karpenter runs in the cluster: two
// controllers would both launch nodes for the same pods.
type BesideKarpenterError struct {
	Found string // what gives it away
}

func (e *BesideKarpenterError) Error() string {
	return "karpenter is running in this cluster (" + e.Found + "), and two controllers would launch nodes for the same pods: " +
		"scale it down first, kubectl scale deployment karpenter -n NAMESPACE --replicas=0; nodepools, nodeclaims and nodes stay as they are"
}

// beside looks for a running Karpenter: a lease that is being renewed, or a
// Deployment with pods available.
func beside(ctx context.Context, r client.Reader, clk clock.Clock) error {
	var leases coordinationv1.LeaseList
	if err := r.List(ctx, &leases, client.MatchingFields{"metadata.name": karpenterLease}); err != nil {
		return fmt.Errorf("look for karpenter's lease: %w", err)
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		if l.Name == karpenterLease && held(l, clk.Now()) {
			return &BesideKarpenterError{fmt.Sprintf("%s holds lease %s/%s", *l.Spec.HolderIdentity, l.Namespace, l.Name)}
		}
	}
	var list appsv1.DeploymentList
	if err := r.List(ctx, &list, client.MatchingLabels{"app.kubernetes.io/name": "karpenter"}); err != nil {
		return fmt.Errorf("look for karpenter's deployment: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.AvailableReplicas > 0 && runsKarpenter(d) {
			return &BesideKarpenterError{fmt.Sprintf("deployment %s/%s has %d available", d.Namespace, d.Name, d.Status.AvailableReplicas)}
		}
	}
	return nil
}

func held(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return false
	}
	lasts := 15 * time.Second
	if s.LeaseDurationSeconds != nil {
		lasts = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return now.Before(s.RenewTime.Add(2 * lasts))
}

func runsKarpenter(d *appsv1.Deployment) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.Contains(c.Image, "karpenter") {
			return true
		}
	}
	return false
}

// watchBeside looks again and again while this controller leads, and returns
// the error that ends it when Karpenter appears.
func watchBeside(ctx context.Context, r client.Reader, clk clock.Clock) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-clk.After(time.Minute):
		}
		if err := beside(ctx, r, clk); err != nil && ctx.Err() == nil {
			if _, found := err.(*BesideKarpenterError); found {
				return err
			}
			log.FromContext(ctx).Error(err, "cannot tell whether karpenter runs here")
		}
	}
}

// An OldAPIError says that the cluster serves Karpenter's objects in versions
// that are not read.
type OldAPIError struct {
	Kinds []string // "NodePool karpenter.sh/v1beta1"
}

func (e *OldAPIError) Error() string {
	return "the cluster has " + strings.Join(e.Kinds, ", ") + ", which karpenter 1.15 does not serve: " +
		"kubectl get provisioners,awsnodetemplates,nodepools,ec2nodeclasses -o yaml | kerf migrate -f - writes them as v1"
}

// old are the kinds that people may still have, with the versions before v1.
var old = []schema.GroupVersionKind{
	{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"},
	{Group: "karpenter.sh", Version: "v1beta1", Kind: "NodePool"},
	{Group: "karpenter.k8s.aws", Version: "v1alpha1", Kind: "AWSNodeTemplate"},
	{Group: "karpenter.k8s.aws", Version: "v1beta1", Kind: "EC2NodeClass"},
}

// versions refuses a cluster that does not serve NodePool and NodeClaim as v1,
// and lists the kinds of old versions that it serves besides.
func versions(m meta.RESTMapper) (also []string, err error) {
	for _, k := range old {
		mapping, err := m.RESTMapping(k.GroupKind(), k.Version)
		if err == nil && mapping.GroupVersionKind == k {
			also = append(also, k.Kind+" "+k.GroupVersion().String())
		}
	}
	for _, kind := range []string{"NodePool", "NodeClaim"} {
		_, err := m.RESTMapping(schema.GroupKind{Group: "karpenter.sh", Kind: kind}, "v1")
		switch {
		case meta.IsNoMatchError(err) && len(also) > 0:
			return nil, &OldAPIError{also}
		case meta.IsNoMatchError(err):
			return nil, fmt.Errorf("the cluster does not serve %s of karpenter.sh/v1: install karpenter's CRDs, helm install karpenter-crd oci://public.ecr.aws/karpenter/karpenter-crd", kind)
		case err != nil:
			return nil, fmt.Errorf("ask what the cluster serves: %w", err)
		}
	}
	return also, nil
}

// tellOld puts an event on every object of the kinds, "Provisioner
// karpenter.sh/v1alpha5", that nobody reads. Kinds of which the same objects are
// served as v1 too are passed over.
func tellOld(ctx context.Context, m manager.Manager, kinds []string) {
	for _, k := range kinds {
		kind, version, _ := strings.Cut(k, " ")
		gk := schema.FromAPIVersionAndKind(version, kind).GroupKind()
		if _, err := m.GetRESTMapper().RESTMapping(gk, "v1"); err == nil {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		if err := m.GetAPIReader().List(ctx, &list); err != nil {
			log.FromContext(ctx).Error(err, "cannot list objects of an old version", "kind", k)
			continue
		}
		for i := range list.Items {
			log.FromContext(ctx).Info("an object of an old version is not read", "kind", k, "name", list.Items[i].GetName())
			if err := m.GetClient().Create(ctx, oldEvent(&list.Items[i])); client.IgnoreAlreadyExists(err) != nil {
				log.FromContext(ctx).Error(err, "cannot write an event", "kind", k, "name", list.Items[i].GetName())
			}
		}
	}
}

// oldEvent says on an object of an old version what to do about it. It is
// written at once: the controller may be about to end.
func oldEvent(o *unstructured.Unstructured) *corev1.Event {
	now := metav1.Now()
	gvk := o.GroupVersionKind()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: strings.ToLower(gvk.Kind) + "." + o.GetName() + eventSuffix},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: o.GetAPIVersion(), Kind: gvk.Kind, Name: o.GetName(), UID: o.GetUID(),
		},
		Type: corev1.EventTypeWarning, Reason: "OldVersion", Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Message: fmt.Sprintf("kerf and karpenter 1.15 do not read %s %s: kubectl get %ss.%s %s -o yaml | kerf migrate -f - writes it as v1",
			gvk.Kind, o.GetAPIVersion(), strings.ToLower(gvk.Kind), gvk.Group, o.GetName()),
		Source: corev1.EventSource{Component: speaker}, ReportingController: speaker,
	}
}
