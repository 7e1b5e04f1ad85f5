// Package plane runs a real Kubernetes control plane on loopback: etcd, the API
// server, the controller manager and the scheduler, inside the calling process
// or, where prebuilt programs are given, as its children.
//
// Clients reach the API server through a small proxy, so that a test can make
// it slow or cut it off; the controller manager and the scheduler are clients
// too. Logs, certificates and objects are kept in one folder, and a plane that
// is started again on it goes on where the last one stopped.
//
// Kubernetes keeps feature gates, metrics and its logger in variables of the
// process: one plane at a time.
package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
)

// A Config says what to start.
type Config struct {
	// Dir holds everything that the plane writes: pki/, etcd/, logs/ and the
	// kubeconfigs. It is made when missing; objects of an earlier run are kept.
	Dir string

	// Port is where clients find the API server on 127.0.0.1; 0 takes a free one.
	Port int

	// Assets names a folder with the programs etcd, kube-apiserver,
	// kube-controller-manager and kube-scheduler, to be run instead of the ones
	// that are linked in; empty for none. KUBEBUILDER_ASSETS is such a folder.
	Assets string

	// CRDs are created beside those of Karpenter.
	CRDs []*apiextensionsv1.CustomResourceDefinition

	// More flags of the three components, in the form --name=value.
	APIServerFlags, ControllerManagerFlags, SchedulerFlags []string
}

// Validate names the first thing that is wrong.
func (c Config) Validate() error {
	if c.Dir == "" {
		return errors.New("plane: Dir is empty; name a folder for certificates, logs and etcd")
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("plane: port %d; expected 0 for a free one, or 1 to 65535", c.Port)
	}
	return nil
}

// A Plane is a running control plane.
type Plane struct {
	config Config
	run    runner
	proxy  *proxy
	admin  *rest.Config

	processes []*process // in the order of their start
	failed    chan error
	stopping  chan struct{}
	watchers  sync.WaitGroup
	stopOnce  sync.Once
	stopErr   error
}

// A runner starts components, in this process or in others.
type runner interface {
	// etcd starts the store and returns its URL once it answers.
	etcd(ctx context.Context, dir string) (*process, string, error)
	// apiServer starts the API server, which takes over the listener.
	apiServer(l net.Listener, flags []string) (*process, error)
	// client starts the controller manager or the scheduler.
	client(name string, flags []string) (*process, error)
	// close is called when all components have ended.
	close() error
}

// A process is one running component.
type process struct {
	name string
	stop func()        // asks it to end
	done chan struct{} // closed when it has ended
	err  error         // why, once done is closed
}

// Start brings up the control plane and returns when it can be used: the API
// server is ready, the CRDs are served, and the controller manager has made the
// default service account, without which no pod can be created. The context
// bounds the start only. On an error nothing is left running.
func Start(ctx context.Context, config Config) (*Plane, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("plane: %w", err)
	}
	config.Dir = dir
	p := &Plane{config: config, failed: make(chan error, 4), stopping: make(chan struct{})}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the control plane (logs in %s): %w", p.path("logs"), err), p.Stop())
	}
	return p, nil
}

func (p *Plane) start(ctx context.Context) error {
	if err := os.MkdirAll(p.path("logs"), 0o755); err != nil {
		return fmt.Errorf("making the folder of logs: %w", err)
	}
	if err := writePKI(p.path("pki")); err != nil {
		return err
	}
	var err error
	if p.run, err = newRunner(p.config.Assets, p.path("logs")); err != nil {
		return err
	}
	store, url, err := p.run.etcd(ctx, p.path("etcd"))
	if err != nil {
		return fmt.Errorf("%s: %w", etcd, err)
	}
	p.watch(store)
	if err := p.startAPIServer(ctx, url); err != nil {
		return fmt.Errorf("%s: %w", apiServer, err)
	}
	if err := p.startClient(controllerManager, p.controllerManagerFlags()); err != nil {
		return err
	}
	if err := p.startClient(scheduler, p.schedulerFlags()); err != nil {
		return err
	}
	return p.waitUsable(ctx)
}

// startAPIServer starts the API server and the proxy before it, and writes the
// kubeconfigs that lead to the proxy.
func (p *Plane) startAPIServer(ctx context.Context, etcdURL string) error {
	front, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p.config.Port))
	if err != nil {
		return fmt.Errorf("listening for clients: %w", err)
	}
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("finding a free port: %w", err), front.Close())
	}
	p.proxy = newProxy(front, back.Addr().String())
	if err := p.writeKubeconfigs("https://" + front.Addr().String()); err != nil {
		return errors.Join(err, back.Close())
	}
	_, port, err := net.SplitHostPort(back.Addr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("reading the address of the API server: %w", err), back.Close())
	}
	server, err := p.run.apiServer(back, p.apiServerFlags(port, etcdURL))
	if err != nil {
		return err
	}
	p.watch(server)
	return p.waitReady(ctx)
}

func (p *Plane) startClient(name string, flags []string) error {
	c, err := p.run.client(name, flags)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.watch(c)
	return nil
}

// watch reports a component that ends before it is told to.
func (p *Plane) watch(c *process) {
	p.processes = append(p.processes, c)
	p.watchers.Go(func() {
		<-c.done
		select {
		case <-p.stopping:
		default:
			p.failed <- fmt.Errorf("%s ended by itself: %w", c.name, c.err)
		}
	})
}

// Failed gives the error of a component that ended by itself. The plane is of
// no use then, and Stop ends the rest.
func (p *Plane) Failed() <-chan error { return p.failed }

// RESTConfig is that of an administrator whose client holds nothing back.
func (p *Plane) RESTConfig() *rest.Config { return rest.CopyConfig(p.admin) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.path("kubeconfig") }

// Slow makes all that clients send reach the API server d later; 0 ends that.
func (p *Plane) Slow(d time.Duration) { p.proxy.slow(d) }

// Cut resets every connection to the API server, and each new one, until Heal:
// what clients see when it is killed.
func (p *Plane) Cut() { p.proxy.sever() }

// Heal ends a Cut.
func (p *Plane) Heal() { p.proxy.heal() }

// Stop ends all components, the last to start first, and waits for them.
// Further calls return what the first one did.
func (p *Plane) Stop() error {
	p.stopOnce.Do(func() { p.stopErr = p.shutDown() })
	return p.stopErr
}

// patience is how long one component may take to end.
const patience = time.Minute

func (p *Plane) shutDown() error {
	close(p.stopping)
	var errs []error
	for i := len(p.processes) - 1; i >= 0; i-- {
		c := p.processes[i]
		c.stop()
		select {
		case <-c.done:
		case <-time.After(patience):
			return fmt.Errorf("%s did not end within %v", c.name, patience)
		}
	}
	p.watchers.Wait()
	if p.proxy != nil {
		errs = append(errs, p.proxy.close())
	}
	if p.run != nil {
		errs = append(errs, p.run.close())
	}
	return errors.Join(errs...)
}
