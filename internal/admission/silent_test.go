package admission

import (
	"context"
	"runtime"

	"github.com/kerfdev/kerf/internal/guard"
	"github.com/kerfdev/kerf/internal/model"
)

// silent is a cluster that knows nothing.
type silent struct{}

func (silent) Facts(context.Context, *guard.Pod) (*guard.Facts, error) { return &guard.Facts{}, nil }
func (silent) Taints(context.Context, string) ([]model.Taint, error)   { return nil, nil }
func (silent) AddsTolerations() bool                                   { return true }

// heap is how much is in use once everything unused is gone.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
