package world

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// A Write is a kind of thing that a controller does to the world: "create
// nodeclaims", "patch nodeclaims/status", "create pods/eviction", "launch
// instance", "terminate instance".
type Write string

// Fatal says whether a controller dies right after a write has happened, before
// it learns of it. It is called from several goroutines.
type Fatal func(Write) bool

// A life is what a controller can lose.
type life struct {
	fatal  Fatal
	cancel context.CancelFunc
	dead   atomic.Bool
}

var errDead = errors.New("this controller was killed")

func (l *life) end() {
	l.dead.Store(true)
	l.cancel()
}

// wrote reports whether the controller is dead now that it has written.
func (l *life) wrote(w Write) bool {
	if !l.dead.Load() && l.fatal != nil && l.fatal(w) {
		l.end()
	}
	return l.dead.Load()
}

func (l *life) wrap(next http.RoundTripper) http.RoundTripper { return &mortalTransport{next, l} }

// mortalTransport is the connection of a controller to the API server.
type mortalTransport struct {
	next http.RoundTripper
	life *life
}

// RoundTrip implements http.RoundTripper.
func (t *mortalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.life.dead.Load() {
		return nil, errDead
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w, writes := writeOf(r)
	if t.life.dead.Load() || writes && response.StatusCode < http.StatusMultipleChoices && t.life.wrote(w) {
		_ = response.Body.Close()
		return nil, errDead
	}
	return response, nil
}

// writeOf names what a request does.
func writeOf(r *http.Request) (Write, bool) {
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	if verb == "" || len(parts) <= skip {
		return "", false
	}
	parts = parts[skip:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	what := parts[0]
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	return Write(verb + " " + what), true
}

// mortalCloud is the connection of a controller to the cloud.
type mortalCloud struct {
	cloudprovider.CloudProvider
	life     *life
	launched func(providerID string)
}

// Create implements cloudprovider.CloudProvider.
func (c *mortalCloud) Create(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	if c.life.dead.Load() {
		return nil, errDead
	}
	out, err := c.CloudProvider.Create(ctx, claim)
	if err == nil {
		c.launched(out.Status.ProviderID)
	}
	if err == nil && c.life.wrote("launch instance") {
		return nil, errDead
	}
	return out, err
}

// Delete implements cloudprovider.CloudProvider.
func (c *mortalCloud) Delete(ctx context.Context, claim *karpenter.NodeClaim) error {
	if c.life.dead.Load() {
		return errDead
	}
	err := c.CloudProvider.Delete(ctx, claim)
	if err == nil && c.life.wrote("terminate instance") {
		return errDead
	}
	return err
}
