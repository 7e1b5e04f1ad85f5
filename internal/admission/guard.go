package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
	"github.com/kerfdev/kerf/internal/source"
)

// A Cluster is what the guard asks about the cluster beyond the object under
// review. Its methods are called from many reviews at once.
type Cluster interface {
	// Facts are those of a pod's namespace, of its runtime class and of the
	// ConfigMaps that its containers take variables from. An error means that they
	// could not be had now; what does not exist is no error.
	Facts(ctx context.Context, p *guard.Pod) (*guard.Facts, error)
	// Taints are those that the nodes of a NodePool have, nil when there is no
	// such pool.
	Taints(ctx context.Context, pool string) ([]model.Taint, error)
	// AddsTolerations reports whether the API server adds tolerations for
	// extended resources itself.
	AddsTolerations() bool
}

// A Guard judges and repairs objects. It holds no state of its own.
type Guard struct {
	Cluster    Cluster
	Exemptions guard.Exemptions
	// Count is told of every verdict, for metrics: "allowed", "repaired",
	// "denied" or "failed", with the rules of the findings. Nil counts nothing.
	Count func(verdict string, found []guard.Finding)
}

var errNoObject = errors.New("the review holds no object")

// document reads the object of a review.
func document(raw []byte, req *admissionv1.AdmissionRequest) (manifest.Document, error) {
	if len(raw) == 0 {
		return manifest.Document{}, errNoObject
	}
	root, err := source.JSON(raw)
	if err != nil {
		return manifest.Document{}, fmt.Errorf("read the object: %w", err)
	}
	switch root.Kind {
	case manifest.Map:
	case manifest.Null:
		return manifest.Document{}, errNoObject
	default:
		return manifest.Document{}, fmt.Errorf("read the object: it is a %s, not a map", root.Kind)
	}
	return manifest.Document{
		Root: root, Kind: cmp.Or(root.Get("kind").Str(), req.Kind.Kind), APIVersion: cmp.Or(root.Get("apiVersion").Str(), req.Kind.Version),
		Namespace: cmp.Or(req.Namespace, root.At("metadata", "namespace").Str()),
		Name:      cmp.Or(root.At("metadata", "name").Str(), req.Name, root.At("metadata", "generateName").Str()),
	}, nil
}

// pods reads the pods of an object. One that is being created has been stored by
// nobody, although the API server has given it a UID by the time it is judged.
func pods(d manifest.Document, req *admissionv1.AdmissionRequest) []guard.Pod {
	list := guard.Pods(d)
	for i := range list {
		list[i].Namespace = req.Namespace
		if req.Operation == admissionv1.Create {
			list[i].Live = false
		}
	}
	return list
}

// refuse answers a review that cannot be read. It is a fault of whoever sent it.
func refuse(err error) admission.Response {
	return admission.Errored(http.StatusBadRequest, err)
}

// fail answers a review that could not be judged now. What becomes of the object
// is for the failure policy to say.
func fail(err error) admission.Response {
	return admission.Errored(http.StatusInternalServerError, err)
}

func (g *Guard) count(verdict string, found []guard.Finding) {
	if g.Count != nil {
		g.Count(verdict, found)
	}
}
