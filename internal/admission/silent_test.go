package admission

import (
	"context"
	"net/http"
	"runtime"

	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// silent is a cluster that knows nothing.
type silent struct{}

func (silent) Facts(context.Context, *guard.Pod) (*guard.Facts, error) { return &guard.Facts{}, nil }
func (silent) Taints(context.Context, string) ([]model.Taint, error)   { return nil, nil }
func (silent) AddsTolerations() bool                                   { return true }

func hook(judge func(context.Context, ctrladmission.Request) ctrladmission.Response) http.Handler {
	return &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(judge)}
}

// heap is how much is in use once everything unused is gone.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
