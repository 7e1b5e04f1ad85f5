package hands

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// An index is a field by which Karpenter's controllers look objects up.
type index struct {
	of    client.Object
	field string
	value func(client.Object) string
}

// indexes are those that Karpenter v1.15.0's operator sets up.
var indexes = []index{
	{&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
	{&corev1.Node{}, "spec.providerID", func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
	{&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }},
	{&karpenter.NodeClaim{}, "status.providerID", func(o client.Object) string { return o.(*karpenter.NodeClaim).Status.ProviderID }},
	{&karpenter.NodeClaim{}, "spec.nodeClassRef.group", claimRef(func(r *karpenter.NodeClassReference) string { return r.Group })},
	{&karpenter.NodeClaim{}, "spec.nodeClassRef.kind", claimRef(func(r *karpenter.NodeClassReference) string { return r.Kind })},
	{&karpenter.NodeClaim{}, "spec.nodeClassRef.name", claimRef(func(r *karpenter.NodeClassReference) string { return r.Name })},
	{&karpenter.NodePool{}, "spec.template.spec.nodeClassRef.group", poolRef(func(r *karpenter.NodeClassReference) string { return r.Group })},
	{&karpenter.NodePool{}, "spec.template.spec.nodeClassRef.kind", poolRef(func(r *karpenter.NodeClassReference) string { return r.Kind })},
	{&karpenter.NodePool{}, "spec.template.spec.nodeClassRef.name", poolRef(func(r *karpenter.NodeClassReference) string { return r.Name })},
}

func claimRef(f func(*karpenter.NodeClassReference) string) func(client.Object) string {
	return func(o client.Object) string { return refField(o.(*karpenter.NodeClaim).Spec.NodeClassRef, f) }
}

func poolRef(f func(*karpenter.NodeClassReference) string) func(client.Object) string {
	return func(o client.Object) string {
		return refField(o.(*karpenter.NodePool).Spec.Template.Spec.NodeClassRef, f)
	}
}

func refField(r *karpenter.NodeClassReference, f func(*karpenter.NodeClassReference) string) string {
	if r == nil {
		return ""
	}
	return f(r)
}

// Index sets up the fields by which the controllers look objects up. Register
// calls it; a field can be indexed only once a manager.
func Index(ctx context.Context, to client.FieldIndexer) error {
	for _, i := range indexes {
		value := i.value
		err := to.IndexField(ctx, i.of, i.field, func(o client.Object) []string { return []string{value(o)} })
		if err != nil {
			return fmt.Errorf("index %s of %T: %w", i.field, i.of, err)
		}
	}
	return nil
}
