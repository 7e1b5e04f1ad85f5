package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A keeper holds the serving certificate, in a Secret that all replicas share,
// and tells the API server which authorities to trust.
type keeper struct {
	client    client.Client // not cached
	clock     clock.Clock
	secret    client.ObjectKey
	hosts     []string // names and addresses that the API server calls
	settle    time.Duration
	every     time.Duration
	published func(ctx context.Context, bundle []byte) error

	serving atomic.Pointer[tls.Certificate]
	shown   atomic.Pointer[[]byte] // the bundle that was published last
}

var errNotYet = errors.New("no serving certificate yet")

// certificate is for a TLS server.
func (k *keeper) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errNotYet
}

// ready is a health check: it fails until reviews can be answered.
func (k *keeper) ready(*http.Request) error {
	if k.shown.Load() == nil {
		return errNotYet
	}
	return nil
}

// Start keeps the certificate until the context ends. It is a runnable of a manager.
func (k *keeper) Start(ctx context.Context) error {
	for {
		wait := k.every
		if err := k.keep(ctx); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "keep the guard's certificate")
			wait = min(wait, 2*time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.clock.After(wait):
		}
	}
}

// NeedLeaderElection says that every replica keeps its own.
func (k *keeper) NeedLeaderElection() bool { return false }

// keep reads the keys, renews them when they are due, serves them and publishes
// their authorities. When another replica writes first, its keys count.
func (k *keeper) keep(ctx context.Context) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.secret.Namespace, Name: k.secret.Name}}
	err := k.client.Get(ctx, k.secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read Secret %s: %w", k.secret, err)
	}
	now, err := keysFrom(secret.Data).renewed(k.clock.Now(), k.hosts, k.settle)
	if err != nil {
		return err
	}
	if data := now.data(); !maps.EqualFunc(data, secret.Data, bytes.Equal) {
		secret.Data = data
		write := func() error { return k.client.Update(ctx, secret) }
		if missing {
			write = func() error { return k.client.Create(ctx, secret) }
		}
		if err := write(); err != nil {
			return fmt.Errorf("write Secret %s: %w", k.secret, err)
		}
		ctrl.LoggerFrom(ctx).Info("guard certificate renewed", "secret", k.secret.String())
	}
	pair, err := now.pair()
	if err != nil {
		return err
	}
	k.serving.Store(pair)
	bundle := now.bundle()
	if err := k.published(ctx, bundle); err != nil {
		return err
	}
	k.shown.Store(&bundle)
	return nil
}
