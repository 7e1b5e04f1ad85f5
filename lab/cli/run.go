package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/kerfdev/kerf/lab/plane"
)

// startTime is how long the control plane may take to come up: 4 s on an idle
// machine.
const startTime = 2 * time.Minute

// Run starts the control plane, and on it the simulated cloud and Kerf's
// controller, says how to use them, and stops them when the context ends.
func Run(ctx context.Context, config Config, out io.Writer) error {
	return withPlane(ctx, config, out, func(p *plane.Plane, begin time.Time) (err error) {
		if !config.Bare {
			w, failure := inhabit(ctx, p, config)
			if errors.Is(failure, context.Canceled) { // told to stop before it was up
				return nil
			}
			if failure != nil {
				return failure
			}
			defer func() { err = errors.Join(err, w.Leave()) }()
		}
		if err := announce(p, time.Since(begin), config, out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(out, "stopping")
			return nil
		case err := <-p.Failed():
			return err
		}
	})
}

// withPlane has a control plane used, and stops it after that.
func withPlane(ctx context.Context, config Config, out io.Writer, use func(p *plane.Plane, begin time.Time) error) (err error) {
	crds, err := readCRDs(config.CRDs)
	if err != nil {
		return err
	}
	if crds, err = withNodeClass(crds); err != nil {
		return err
	}
	dir := config.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "kerf-lab-"); err != nil {
			return fmt.Errorf("making a temporary folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	begin := time.Now()
	fmt.Fprintf(out, "starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler; logs in %s\n", filepath.Join(dir, "logs"))
	p, err := start(ctx, plane.Config{Dir: dir, Port: config.Port, Assets: config.Assets, CRDs: crds})
	if errors.Is(err, context.Canceled) { // told to stop before it was up
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	return use(p, begin)
}

func start(ctx context.Context, config plane.Config) (*plane.Plane, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return plane.Start(ctx, config)
}

// announce says how to use what is running.
func announce(p *plane.Plane, took time.Duration, config Config, out io.Writer) error {
	client, err := discovery.NewDiscoveryClientForConfig(p.RESTConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	end := "ctrl-c stops it and removes everything; --dir DIR would keep the objects"
	if config.Dir != "" {
		end = "ctrl-c stops it; the same --dir goes on with the objects"
	}
	what := "with a simulated cloud and kerf-controller: apply NodePools and pods"
	if config.Bare {
		what = "the control plane alone"
	}
	fmt.Fprintf(out, `
  kubernetes %s · %s · up in %.1f s
  %s

  export KUBECONFIG=%s
  kubectl get nodepools,nodeclaims,nodes,pods -A

  %s
`, version.GitVersion, p.RESTConfig().Host, took.Seconds(), what, p.Kubeconfig(), end)
	return nil
}
