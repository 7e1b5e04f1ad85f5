package plane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kwok "sigs.k8s.io/karpenter/kwok/apis"
	karpenter "sigs.k8s.io/karpenter/pkg/apis"
)

// waitReady waits for /readyz of the API server.
func (p *Plane) waitReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(p.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return p.until(ctx, "/readyz", func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitUsable creates the CRDs and waits for them and for what the controller
// manager makes.
func (p *Plane) waitUsable(ctx context.Context) error {
	if err := p.createCRDs(ctx); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(p.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return p.until(ctx, "the default service account", func() error {
		_, err := client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// createCRDs creates Karpenter's CRDs as its libraries ship them, and the
// caller's; those of an earlier run are brought up to date.
func (p *Plane) createCRDs(ctx context.Context) error {
	client, err := clientset.NewForConfig(p.admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	all := slices.Concat(karpenter.CRDs, kwok.CRDs, p.config.CRDs)
	for _, crd := range all {
		err := p.until(ctx, "creating the CRD "+crd.Name, func() error {
			old, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = crds.Create(ctx, crd, metav1.CreateOptions{})
				return err
			}
			if err != nil {
				return err
			}
			update := crd.DeepCopy()
			update.ResourceVersion = old.ResourceVersion
			_, err = crds.Update(ctx, update, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, crd := range all {
		err := p.until(ctx, "the CRD "+crd.Name, func() error {
			got, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
			if err == nil && !established(got) {
				err = errors.New("not established")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// until tries again until it succeeds, a component fails, or time is up. A
// request that the API server calls invalid is not tried again.
func (p *Plane) until(ctx context.Context, what string, try func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if apierrors.IsInvalid(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-tick.C:
		case failure := <-p.failed:
			return failure
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last: %w", what, ctx.Err(), err)
		}
	}
}
