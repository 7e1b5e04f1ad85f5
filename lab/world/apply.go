package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owner is who applied a field.
const owner = client.FieldOwner("kerf-lab")

// Apply applies the documents of manifests, as kubectl apply --server-side
// does: definitions first, what they define later. Objects without a namespace
// go to the world's.
func (w *World) Apply(ctx context.Context, manifests []byte) error {
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	for _, o := range objects {
		namespaced, err := w.Client.IsObjectNamespaced(o)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if namespaced && o.GetNamespace() == "" {
			o.SetNamespace(w.config.Namespace)
		}
		if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), owner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// first are the kinds that others refer to, in the order in which they are applied.
var first = []string{"CustomResourceDefinition", "Namespace", "ConfigMap", "EC2NodeClass", "NodePool"}

func rank(o *unstructured.Unstructured) int {
	if i := slices.Index(first, o.GetKind()); i >= 0 {
		return i
	}
	return len(first)
}

// Decode reads the documents of a YAML or JSON stream.
func Decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", len(out)+1, err)
		case len(o.Object) == 0: // nothing between two ---
		case o.GetKind() == "" || o.GetName() == "":
			return nil, fmt.Errorf("document %d: no kind or no metadata.name", len(out)+1)
		default:
			out = append(out, o)
		}
	}
}
