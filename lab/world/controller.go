package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/kerfdev/kerf/internal/cloud"
	"github.com/kerfdev/kerf/internal/controller"
	"github.com/kerfdev/kerf/internal/hands"
)

// A Controller is one run of Kerf's controller.
type Controller struct {
	life   *life
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Control starts a controller and returns when it decides. With a Fatal it may
// die at any moment from then on, even before Control returns, which is no
// error. The controller lives until it is killed or stopped, or dies.
func (w *World) Control(ctx context.Context, fatal Fatal) (*Controller, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &Controller{cancel: cancel, done: make(chan struct{}), life: &life{fatal: fatal, cancel: cancel}}
	config := w.controllerConfig(c)
	ready := make(chan struct{})
	config.Ready = sync.OnceFunc(func() { close(ready) })
	go func() {
		defer close(c.done)
		c.err = controller.Run(running, config)
	}()
	select {
	case <-ready:
	case <-c.done:
		if !c.life.dead.Load() {
			return nil, fmt.Errorf("start the controller: %w", c.err)
		}
	case <-ctx.Done():
		c.Kill()
		return nil, fmt.Errorf("start the controller: %w", ctx.Err())
	}
	w.mu.Lock()
	w.controller = c
	w.mu.Unlock()
	return c, nil
}

func (w *World) controllerConfig(c *Controller) controller.Config {
	rest := w.config.REST
	mortal := *rest
	mortal.Wrap(c.life.wrap)
	return controller.Config{
		REST: &mortal, Region: w.config.Region,
		Cloud: func(context.Context, manager.Manager, cloud.Configs) (cloudprovider.CloudProvider, error) {
			return &mortalCloud{CloudProvider: w.Cloud, life: c.life, launched: w.launchedOne}, nil
		},
		Settings:    hands.Settings{NodeRepair: true, Quiet: true},
		StockMemory: w.config.StockMemory, GPUDeadline: w.config.GPUDeadline, Clock: w.Clock, Logger: w.config.Logger,
	}
}

// Launches is how many instances controllers have ever launched.
func (w *World) Launches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.launches)
}

func (w *World) launchedOne(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launches[id] = true
}

// Later moves the controllers' clock ahead, or with a negative time back, and
// has them look at every NodeClaim. Karpenter's library (v1.15) takes some times
// from its clock and others from the machine's, so the clock should not stay
// ahead, where NodeClaims that are new by then would seem to be old, nor go back
// while nodes drain, which would then take the difference longer.
func (w *World) Later(ctx context.Context, d time.Duration) error {
	w.Clock.Ahead(d)
	w.Timeline.Note("--- %v later", d)
	claims, err := w.Claims(ctx)
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, `{"metadata":{"annotations":{"kerf.dev/lab-time":%q}}}`, w.Clock.Now().Format(time.RFC3339Nano))
	for i := range claims {
		if err := w.Client.Patch(ctx, &claims[i], client.RawPatch(types.MergePatchType, text)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("touch nodeclaim %s: %w", claims[i].Name, err)
		}
	}
	return nil
}

// Kill ends the controller as a kill of its process does: from now on nothing
// that it sends arrives anywhere. It returns when nothing of it is left.
func (c *Controller) Kill() {
	c.life.end()
	<-c.done
}

// Stop ends the controller as a signal does.
func (c *Controller) Stop() error {
	c.cancel()
	<-c.done
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		return c.err
	}
	return nil
}

// Done is closed when the controller has ended.
func (c *Controller) Done() <-chan struct{} { return c.done }
