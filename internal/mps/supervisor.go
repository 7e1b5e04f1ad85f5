package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"
)

// every is between two looks at the daemons.
const every = 10 * time.Second

// A Supervisor keeps the daemons of a node running.
type Supervisor struct {
	root   string
	runner Runner
	log    *slog.Logger

	mu      sync.Mutex // held while anything is started or stopped
	daemons []daemon
	state   sync.Mutex // guards failed alone, so that Ready does not wait
	failed  error      // why not every daemon answers
}

// NewSupervisor runs daemons below root, the MPS root as the agent sees it.
func NewSupervisor(root string, runner Runner, log *slog.Logger) *Supervisor {
	return &Supervisor{root: root, runner: runner, log: log}
}

// Apply makes plans the daemons that run. Those that stay as they are go on;
// the others are stopped first. When it returns without an error, every daemon
// has answered. An error leaves the remaining plans for Run to try again.
func (s *Supervisor) Apply(ctx context.Context, plans []Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(plans) > 0 && s.root == "" {
		return errors.New("sharing by MPS needs --mps-root, a directory of the host for its daemons")
	}
	var keep []daemon
	var errs []error
	for _, d := range s.daemons {
		if wanted(plans, d.plan) {
			keep = append(keep, d)
			continue
		}
		s.log.Info("MPS daemon stops", "resource", d.plan.Resource)
		if err := d.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the MPS daemon of %s: %w", d.plan.Resource, err))
		}
	}
	s.daemons = keep
	for _, p := range plans {
		if running(keep, p) {
			continue
		}
		d := daemon{plan: p, dir: filepath.Join(s.root, p.Resource), shm: filepath.Join(s.root, "shm"), runner: s.runner, log: s.log}
		s.daemons = append(s.daemons, d)
		errs = append(errs, d.start(ctx))
		s.log.Info("MPS daemon starts", "resource", p.Resource, "gpus", len(p.GPUs))
	}
	return s.settle(errors.Join(errs...))
}

func wanted(plans []Plan, p Plan) bool {
	for _, q := range plans {
		if reflect.DeepEqual(p, q) {
			return true
		}
	}
	return false
}

func running(daemons []daemon, p Plan) bool {
	for _, d := range daemons {
		if reflect.DeepEqual(d.plan, p) {
			return true
		}
	}
	return false
}

// Run looks after the daemons until the context ends: one that does not answer
// is started anew. It stops none.
func (s *Supervisor) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(ctx)
		}
	}
}

func (s *Supervisor) look(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, d := range s.daemons {
		err := d.answers(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.log.Warn("MPS daemon is started anew", "error", err)
		errs = append(errs, d.start(ctx))
	}
	_ = s.settle(errors.Join(errs...)) // Ready tells it
}

// Ready reports as an error what keeps clients from their daemon.
func (s *Supervisor) Ready() error {
	s.state.Lock()
	defer s.state.Unlock()
	return s.failed
}

// settle remembers how it went; the file .ready is there while all is well, as
// with NVIDIA's daemon.
func (s *Supervisor) settle(err error) error {
	s.state.Lock()
	s.failed = err
	s.state.Unlock()
	if s.root == "" {
		return err
	}
	ready := filepath.Join(s.root, ".ready")
	if err != nil || len(s.daemons) == 0 {
		if gone := os.Remove(ready); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return err
	}
	return os.WriteFile(ready, nil, 0o644)
}

// Close stops every daemon and gives the GPUs back to everybody. Clients that
// still run fail.
func (s *Supervisor) Close(ctx context.Context) error { return s.Apply(ctx, nil) }
