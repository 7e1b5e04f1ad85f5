package mps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The programs, as the driver installs them.
const (
	control = "nvidia-cuda-mps-control"
	smi     = "nvidia-smi"
)

// The compute modes of a GPU.
const (
	exclusive = "EXCLUSIVE_PROCESS"
	shared    = "DEFAULT"
)

// timeout is for one command; a daemon that hangs is not waited for.
const timeout = 10 * time.Second

// A daemon is one control daemon.
type daemon struct {
	plan   Plan
	dir    string // root/<resource>
	shm    string // root/shm, which is /dev/shm to all clients
	runner Runner
	log    *slog.Logger
}

// start brings the GPUs into exclusive mode, starts the daemon, sets its limits
// and asks it for an answer. What was begun is undone when a step fails.
func (d daemon) start(ctx context.Context) error {
	err := d.begin(ctx)
	if err == nil {
		return nil
	}
	undo := d.stop(context.WithoutCancel(ctx))
	return errors.Join(fmt.Errorf("start the MPS daemon of %s: %w", d.plan.Resource, err), undo)
}

func (d daemon) begin(ctx context.Context) error {
	for _, sub := range []string{"pipe", "log"} {
		dir := filepath.Join(d.dir, sub)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := label(dir); err != nil {
			return fmt.Errorf("let containers use %s: %w", dir, err)
		}
	}
	if err := d.share(); err != nil {
		return err
	}
	for _, g := range d.plan.GPUs {
		if err := d.mode(ctx, g, exclusive); err != nil {
			return err
		}
	}
	if _, err := d.run(ctx, Command{Path: control, Args: []string{"-d"}}); err != nil {
		return err
	}
	commands, warnings := d.plan.Limits()
	for _, w := range warnings {
		d.log.Warn(w)
	}
	for _, c := range commands {
		if _, err := d.tell(ctx, c); err != nil {
			return err
		}
	}
	if err := d.answers(ctx); err != nil {
		return err
	}
	return os.WriteFile(d.mark(), nil, 0o644)
}

// share makes the directory of shared memory, for clients of whatever user.
func (d daemon) share() error {
	if err := os.MkdirAll(d.shm, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(d.shm, os.ModeSticky|0o777); err != nil {
		return err
	}
	if err := label(d.shm); err != nil {
		return fmt.Errorf("let containers use %s: %w", d.shm, err)
	}
	return nil
}

// mark is the file that NVIDIA's plugin looks for before it hands replicas out.
func (d daemon) mark() string { return filepath.Join(d.dir, ".started") }

// answers reports as an error that the daemon does not answer.
func (d daemon) answers(ctx context.Context) error {
	out, err := d.tell(ctx, "get_default_active_thread_percentage")
	if err == nil && strings.TrimSpace(out) == "" {
		err = errors.New("it says nothing")
	}
	if err != nil {
		return fmt.Errorf("the MPS daemon of %s does not answer: %w", d.plan.Resource, err)
	}
	return nil
}

// stop ends the daemon and gives the GPUs back to everybody. All of it is tried.
func (d daemon) stop(ctx context.Context) error {
	err := os.Remove(d.mark())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	errs := []error{err}
	if d.answers(ctx) == nil {
		_, err := d.tell(ctx, "quit")
		errs = append(errs, err)
	}
	for _, g := range d.plan.GPUs {
		errs = append(errs, d.mode(ctx, g, shared))
	}
	return errors.Join(errs...)
}

func (d daemon) mode(ctx context.Context, g GPU, mode string) error {
	_, err := d.run(ctx, Command{Path: smi, Args: []string{"-i", g.UUID, "-c", mode}})
	return err
}

// tell gives the daemon a command and returns what it says.
func (d daemon) tell(ctx context.Context, command string) (string, error) {
	return d.run(ctx, Command{Path: control, Stdin: command + "\n"})
}

func (d daemon) run(ctx context.Context, c Command) (string, error) {
	c.Env = []string{
		"CUDA_MPS_PIPE_DIRECTORY=" + filepath.Join(d.dir, "pipe"),
		"CUDA_MPS_LOG_DIRECTORY=" + filepath.Join(d.dir, "log"),
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.runner.Run(ctx, c)
}
