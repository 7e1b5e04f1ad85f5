package world

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/kerfdev/kerf/internal/cloud"
)

// wipe removes what worlds put into a cluster, until nothing is left. Nobody
// else works on it by now, so that whatever holds an object back is taken off.
func (w *World) wipe(ctx context.Context) error {
	return w.Until(ctx, "the cluster to be empty", func() error {
		left, err := w.wipeOnce(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %s", strings.Join(left, ", "))
		}
		return err
	})
}

func (w *World) wipeOnce(ctx context.Context) (left []string, err error) {
	var namespaces corev1.NamespaceList
	if err := w.Client.List(ctx, &namespaces); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var errs []error
	for _, ns := range namespaces.Items {
		errs = append(errs, w.wipeNamespace(ctx, ns.Name))
	}
	for _, list := range []client.ObjectList{
		&karpenter.NodePoolList{}, &karpenter.NodeClaimList{}, &corev1.NodeList{}, &v1alpha1.NodeOverlayList{}, &cloud.EC2NodeClassList{}, &cloud.KWOKNodeClassList{},
	} {
		names, err := w.release(ctx, list)
		left, errs = append(left, names...), append(errs, err)
	}
	var pods corev1.PodList
	errs = append(errs, w.Client.List(ctx, &pods))
	for _, p := range pods.Items {
		left = append(left, "pod "+p.Name)
	}
	return left, errors.Join(errs...)
}

// wipeNamespace deletes workloads first, so that nothing makes their pods anew.
// The namespace stays: one that is going away takes with it what the next world
// puts there.
func (w *World) wipeNamespace(ctx context.Context, ns string) error {
	in := client.InNamespace(ns)
	var errs []error
	for _, o := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ReplicaSet{}, &batchv1.Job{}, &policyv1.PodDisruptionBudget{}, &corev1.PersistentVolumeClaim{},
	} {
		errs = append(errs, w.Client.DeleteAllOf(ctx, o, in, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	errs = append(errs, w.Client.DeleteAllOf(ctx, &corev1.Pod{}, in, client.GracePeriodSeconds(0)))
	if !strings.HasPrefix(ns, "kube-") {
		errs = append(errs, w.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, in))
	}
	if ns == corev1.NamespaceDefault { // of cluster-wide objects
		errs = append(errs, w.Client.DeleteAllOf(ctx, &corev1.Event{}, in))
	}
	return errors.Join(errs...)
}

// release deletes the objects of a list and takes their finalizers off. It
// returns what was there.
func (w *World) release(ctx context.Context, list client.ObjectList) (names []string, err error) {
	if err := w.Client.List(ctx, list); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("read %T: %w", list, err)
	}
	var errs []error
	for _, item := range items {
		o := item.(client.Object)
		names = append(names, fmt.Sprintf("%T %s", o, o.GetName()))
		errs = append(errs, client.IgnoreNotFound(w.Client.Delete(ctx, o, client.GracePeriodSeconds(0))))
		if len(o.GetFinalizers()) > 0 {
			free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := w.Client.Patch(ctx, o, free); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	return names, errors.Join(errs...)
}
