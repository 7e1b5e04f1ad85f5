package hands

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// A paced disruption controller rests nine times as long as it has looked. It looks
// at every node, for every method, every 10 s (Karpenter v1.15), and copies all of
// them and their pods; with thousands of nodes it would do little else.
type paced struct {
	*disruption.Controller
}

// Register implements controller.Controller, as the library does it.
func (p paced) Register(_ context.Context, m manager.Manager) error {
	return controllerruntime.NewControllerManagedBy(m).Named(p.Name()).WatchesRawSource(singleton.Source()).Complete(singleton.AsReconciler(p))
}

// Reconcile implements reconciler.Reconciler.
func (p paced) Reconcile(ctx context.Context) (reconciler.Result, error) {
	begin := time.Now()
	result, err := p.Controller.Reconcile(ctx)
	if err == nil {
		result.RequeueAfter = pause(result.RequeueAfter, time.Since(begin))
	}
	return result, err
}

// pause is how long to rest after a look that took so long. One that found
// something to do is followed by the next as soon as it wants.
func pause(asked, took time.Duration) time.Duration {
	if asked < polling {
		return asked
	}
	return max(asked, min(9*took, longest))
}

const (
	polling = 10 * time.Second // of the library, when there is nothing to do
	longest = 2 * time.Minute
)
