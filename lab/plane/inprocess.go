//go:build !prebuilt

package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // as the programs do
	"k8s.io/klog/v2"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	managerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// schedulerConfigz is the name under which the scheduler of 1.37 publishes its
// configuration within the process; it has no constant for it.
const schedulerConfigz = "componentconfig"

// inProcess runs the components as goroutines. It uses the options and Run of
// each, not its command: a command installs a signal handler, which panics when
// installed twice.
type inProcess struct {
	logs string
	file *os.File
}

// inUse says that a plane runs in this process.
var inUse atomic.Bool

// newInProcess sends what Kubernetes logs to logs/kubernetes.log.
func newInProcess(logs string) (runner, error) {
	if err := SetVersion(); err != nil {
		return nil, err
	}
	if !inUse.CompareAndSwap(false, true) {
		return nil, errors.New("this process runs a control plane already, and Kubernetes allows one; stop it first, or set Assets")
	}
	file, err := os.OpenFile(filepath.Join(logs, "kubernetes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		inUse.Store(false)
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	captureLog()
	kubernetesLog.to(file)
	return &inProcess{logs: logs, file: file}, nil
}

// close lets another plane start in this process.
func (r *inProcess) close() error {
	configz.Delete(managerapp.ConfigzName)
	configz.Delete(schedulerConfigz)
	cache.ResetInformerNamesForTesting() // the controller manager never gives its name back
	kubernetesLog.to(io.Discard)
	defer inUse.Store(false)
	return r.file.Close()
}

func (r *inProcess) etcd(ctx context.Context, dir string) (*process, string, error) {
	c := embed.NewConfig()
	c.Dir = dir
	c.LogLevel, c.LogOutputs = "warn", []string{filepath.Join(r.logs, etcd+".log")}
	c.UnsafeNoFsync = true // what a crash of the machine loses, a lab can lose
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.ListenClientUrls, c.ListenPeerUrls = free, free
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", err
	}
	p := &process{name: etcd, stop: e.Close, done: make(chan struct{})}
	go func() { // ends with Close, which closes Err after all else
		defer close(p.done)
		if p.err = <-e.Err(); p.err == nil {
			p.err = errors.New("closed")
		}
	}()
	select {
	case <-e.Server.ReadyNotify():
		return p, "http://" + e.Clients[0].Addr().String(), nil
	case <-p.done:
		return nil, "", p.err
	case <-ctx.Done():
		e.Close()
		return nil, "", ctx.Err()
	}
}

func (r *inProcess) apiServer(l net.Listener, flags []string) (*process, error) {
	p, err := startAPIServer(l, flags)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return p, nil
}

func startAPIServer(l net.Listener, flags []string) (*process, error) {
	o := apiserveroptions.NewServerRunOptions()
	if err := parse(apiServer, o.Flags(), flags); err != nil {
		return nil, err
	}
	o.SecureServing.Listener = l
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("setting feature gates: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	complete, err := o.Complete(ctx)
	if err == nil {
		err = utilerrors.NewAggregate(complete.Validate())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("options: %w", err)
	}
	return launch(apiServer, cancel, func() error { return apiserverapp.Run(ctx, complete) }), nil
}

func (r *inProcess) client(name string, flags []string) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	prepare := prepareManager
	if name == scheduler {
		prepare = prepareScheduler
	}
	run, err := prepare(ctx, flags)
	if err != nil {
		cancel()
		return nil, err
	}
	return launch(name, cancel, run), nil
}

// prepareManager gives what runs the controller manager.
func prepareManager(ctx context.Context, flags []string) (func() error, error) {
	o, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	all, off, aliases := managerapp.KnownControllers(), managerapp.ControllersDisabledByDefault(), managerapp.ControllerAliases()
	if err := parse(controllerManager, o.Flags(all, off, aliases), flags); err != nil {
		return nil, err
	}
	c, err := o.Config(ctx, all, off, aliases)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return func() error { return managerapp.Run(ctx, c.Complete()) }, nil
}

// prepareScheduler gives what runs the scheduler.
func prepareScheduler(ctx context.Context, flags []string) (func() error, error) {
	o := scheduleroptions.NewOptions()
	if err := parse(scheduler, *o.Flags, flags); err != nil {
		return nil, err
	}
	c, s, err := schedulerapp.Setup(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return func() error { return schedulerapp.Run(ctx, c, s) }, nil
}

// launch runs a component until it returns or is stopped.
func launch(name string, stop context.CancelFunc, run func() error) *process {
	p := &process{name: name, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer stop()
		if p.err = run(); p.err == nil {
			p.err = errors.New("returned")
		}
	}()
	return p
}

// parse reads flags as the component's command would.
func parse(name string, sets cliflag.NamedFlagSets, flags []string) error {
	all := pflag.NewFlagSet(name, pflag.ContinueOnError)
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	all.SetOutput(io.Discard)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(flags); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	return nil
}

// captureLog sends klog, which the process has one of, and what does not use it
// to kubernetesLog.
var captureLog = sync.OnceFunc(func() {
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(kubernetesLog, nil)))
	captureEtcdClientLog()
})

var kubernetesLog = &redirect{w: io.Discard}

// A redirect is a writer whose end can be changed while others write to it.
type redirect struct {
	mu sync.Mutex
	w  io.Writer
}

func (r *redirect) to(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w = w
}

func (r *redirect) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w.Write(b)
}
