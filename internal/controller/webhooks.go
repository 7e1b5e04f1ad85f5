package controller

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kerfdev/kerf/internal/admission"
	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/install"
)

// serveGuard adds the guard's webhooks to the manager, if there is to be a
// guard. It knows what the device plugins of the cluster grant.
func serveGuard(ctx context.Context, m manager.Manager, guard *admission.Config, configs cloud.Configs) error {
	if guard == nil {
		return nil
	}
	c := *guard
	if c.Devices == nil {
		c.Devices = (&granted{ctx: ctx, configs: configs}).devices
	}
	return admission.Register(m, c)
}

// granted remembers what was worked out of an installation, as every review asks.
type granted struct {
	ctx     context.Context
	configs cloud.Configs

	mu      sync.Mutex
	of      *cloud.Installation
	most    map[string]int64
	offered map[string]bool
}

func (g *granted) devices() (mostOf map[string]int64, offered map[string]bool) {
	now, err := g.configs.Current(g.ctx)
	if err != nil {
		log.FromContext(g.ctx).Error(err, "the guard cannot tell what device plugins grant")
		return nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of != now {
		g.of = now
		g.most, g.offered = install.Offers(now.Sharing, nil)
	}
	return g.most, g.offered
}
